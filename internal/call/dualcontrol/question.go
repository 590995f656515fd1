package dualcontrol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// severity is of every question about the gateway: what decides all calls to come is
// no smaller thing than one of them.
const severity = "high"

// Question is what people are asked.
type Question struct {
	// Type is approval.SubjectGatewayChange or approval.SubjectDevicePairing.
	Type approval.SubjectType
	// ID names what would change: "member:user:bob", "policy:sha256:...".
	ID string
	// Title and Summary say it in a few words and in one sentence; Notes say more.
	Title, Summary string
	Notes          []string
	// Diff is a unified diff of texts that would change, if there are any. Workspace is that
	// of the files in it, "" for texts of the gateway, and Root a digest of those files: the
	// answer is bound to it, and nobody is shown it.
	Diff, Workspace, Root string
	// Details are the change itself. People see them as JSON, and the answer is bound
	// to them: with other details, it is another question.
	Details any
	// Requester is who asks, and from which device.
	Requester access.Caller
	Rule      Rule
	// Timeout is that of approval.Ask.
	Timeout time.Duration
}

// changeType is that of a Plan's question.
const changeType = approval.SubjectGatewayChange

// binding is the question as approvals bind it, and its arguments as people are shown them.
func (q Question) binding() (b tool.Binding, shown json.RawMessage, err error) {
	details, err := canonical.Marshal(q.Details)
	if err != nil {
		return b, nil, fmt.Errorf("encoding the details: %w", err)
	}
	// The subject is bound, too: what is asked about is more than its details.
	arguments := map[string]any{"subject": q.ID, "change": json.RawMessage(details)}
	if shown, err = canonical.Marshal(arguments); err != nil {
		return b, nil, fmt.Errorf("encoding the question: %w", err)
	}
	b.Arguments = shown
	if q.Root != "" {
		arguments["files"] = q.Root
		if b.Arguments, err = canonical.Marshal(arguments); err != nil {
			return b, nil, fmt.Errorf("encoding the question: %w", err)
		}
	}
	b.Principal, b.OnBehalfOf, b.Tool = q.Requester.Principal.String(), q.Requester.OnBehalfOf.String(), approval.GatewayTool(q.Type)
	return b, shown, nil
}

// digest names the question.
func (q Question) digest() (string, error) {
	b, _, err := q.binding()
	if err != nil {
		return "", err
	}
	return b.Digest()
}

// ask is the question as the desk takes it.
func (q Question) ask(snapshot string) (*approval.Ask, error) {
	if approval.GatewayTool(q.Type) == "" {
		return nil, fmt.Errorf("a question about the gateway of type %q", q.Type)
	}
	b, shown, err := q.binding()
	if err != nil {
		return nil, err
	}
	rule, err := json.Marshal(q.Rule)
	if err != nil {
		return nil, fmt.Errorf("encoding the rule: %w", err)
	}
	p := tool.Proposal{
		ID: ulid.Make().String(), Caller: q.Requester, Input: shown, Tool: tool.Descriptor{Name: b.Tool, Title: q.Title},
	}
	plan := tool.Plan{Binding: b, Facts: tool.Facts{Workspace: q.Workspace}, Preview: tool.Preview{Summary: q.Summary, Diff: q.Diff, Notes: q.Notes}}
	prompt, err := approval.NewPrompt(p, plan, severity)
	if err != nil {
		return nil, err
	}
	return &approval.Ask{
		Proposal: p, Plan: plan, SnapshotDigest: snapshot, Request: rule, Prompt: prompt, SubjectType: q.Type,
		SubjectID: q.ID, Severity: severity, Timeout: q.Timeout, Needs: onePerson(), Missing: q.Rule.wants(q.Type, q.Requester.Principal),
	}, nil
}
