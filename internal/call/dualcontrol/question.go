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

// severity is the severity of every question about the gateway. A change that affects all later
// calls is at least as severe as one call.
const severity = "high"

// Question is a question about a change of the gateway.
type Question struct {
	// Type is approval.SubjectGatewayChange or approval.SubjectDevicePairing.
	Type approval.SubjectType
	// ID names what would change: "member:user:bob", "policy:sha256:...".
	ID string
	// Title is a short name of the change, and Summary one sentence. Notes add facts that an
	// approver should consider.
	Title, Summary string
	Notes          []string
	// Diff is a unified diff of the texts that would change, if there are any. Workspace is the
	// workspace of the changed files, "" for texts of the gateway. Root is a digest of the files:
	// the answer is bound to it, and it is not displayed.
	Diff, Workspace, Root string
	// Details describe the change. People see them as JSON, and the answer is bound to them:
	// different details make a different question.
	Details any
	// Requester is the principal who asks, with the device.
	Requester access.Caller
	Rule      Rule
	// Timeout is the Timeout of the approval.Ask.
	Timeout time.Duration
}

// changeType is the type of the question of a Plan.
const changeType = approval.SubjectGatewayChange

// binding returns the question in the form that an approval binds, and its arguments as people see
// them.
func (q Question) binding() (b tool.Binding, displayed json.RawMessage, err error) {
	details, err := canonical.Marshal(q.Details)
	if err != nil {
		return b, nil, fmt.Errorf("encoding the details: %w", err)
	}
	// The subject is bound as well, because the details do not identify it.
	arguments := map[string]any{"subject": q.ID, "change": json.RawMessage(details)}
	if displayed, err = canonical.Marshal(arguments); err != nil {
		return b, nil, fmt.Errorf("encoding the question: %w", err)
	}
	b.Arguments = displayed
	if q.Root != "" {
		arguments["files"] = q.Root
		if b.Arguments, err = canonical.Marshal(arguments); err != nil {
			return b, nil, fmt.Errorf("encoding the question: %w", err)
		}
	}
	b.Principal, b.OnBehalfOf, b.Tool = q.Requester.Principal.String(), q.Requester.OnBehalfOf.String(), approval.GatewayTool(q.Type)
	return b, displayed, nil
}

// digest returns the digest that identifies the question.
func (q Question) digest() (string, error) {
	b, _, err := q.binding()
	if err != nil {
		return "", err
	}
	return b.Digest()
}

// ask returns the question in the form that the desk accepts.
func (q Question) ask(snapshot string) (*approval.Ask, error) {
	if approval.GatewayTool(q.Type) == "" {
		return nil, fmt.Errorf("encoding the question: %q is not a type of questions about the gateway", q.Type)
	}
	b, displayed, err := q.binding()
	if err != nil {
		return nil, err
	}
	rule, err := json.Marshal(q.Rule)
	if err != nil {
		return nil, fmt.Errorf("encoding the rule: %w", err)
	}
	p := tool.Proposal{
		ID: ulid.Make().String(), Caller: q.Requester, Input: displayed, Tool: tool.Descriptor{Name: b.Tool, Title: q.Title},
	}
	plan := tool.Plan{Binding: b, Facts: tool.Facts{Workspace: q.Workspace}, Preview: tool.Preview{Summary: q.Summary, Diff: q.Diff, Notes: q.Notes}}
	prompt, err := approval.NewPrompt(p, plan, severity)
	if err != nil {
		return nil, err
	}
	return &approval.Ask{
		Proposal: p, Plan: plan, SnapshotDigest: snapshot, Request: rule, Prompt: prompt, SubjectType: q.Type,
		SubjectID: q.ID, Severity: severity, Timeout: q.Timeout, Needs: onePerson(), Missing: q.Rule.missing(q.Type, q.Requester.Principal),
	}, nil
}
