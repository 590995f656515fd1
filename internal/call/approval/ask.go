package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Ask is a request to approve a planned call.
type Ask struct {
	Proposal tool.Proposal
	Plan     tool.Plan
	// CallDigest must be the digest of Plan.Binding; it is computed if empty.
	CallDigest string
	// Resolved is the digest of a tool.Resolved, which is the same for all calls with the same
	// effect. Denials are remembered by it. If it is empty, a denial is remembered for the
	// identical call only.
	Resolved       string
	SnapshotDigest string
	// Request is the policy request that the Judge evaluates again.
	Request json.RawMessage
	Prompt  Prompt
	// Edits are the earlier edits; Changed lists the differences from the proposed call.
	Edits   []Edit
	Changed []tool.Difference
	// SubjectType defaults to tool. SubjectID defaults to the plan's subject, or else to the
	// tool's name.
	SubjectType SubjectType
	SubjectID   string
	// Timeout is clamped to the desk's limits; zero means Limits.Timeout.
	Timeout  time.Duration
	Severity string
	// Missing and Needs are the requirements of the call before the first vote, if known.
	Missing string
	Needs   *Needs
	// Covers evaluates policy with a standing grant. It is used for a call that waited on a record
	// together with an identical call that consumed the approval. If Covers returns true, the call
	// may proceed by the grant that the votes created. If Covers is nil, such a call requests a
	// new approval.
	Covers func(context.Context, Grant) (bool, error)
}

// Query returns the grant query of the ask.
func (a Ask) Query() GrantQuery { return QueryOf(&a.Proposal, &a.Plan, a.CallDigest, a.SubjectID) }

// QueryOf returns the grant query of a planned call, or of its changes if the subject names them.
func QueryOf(p *tool.Proposal, plan *tool.Plan, callDigest, subjectID string) GrantQuery {
	return GrantQuery{
		Principal: p.Caller.Principal, OnBehalfOf: p.Caller.OnBehalfOf, Session: p.Session, Tool: p.Tool.Name,
		ToolDefinition: plan.Binding.ToolDefinitionDigest, Subject: plan.Subject, CallDigest: callDigest,
		Commit: isCommit(subjectID), Elsewhere: plan.Binding.Elsewhere, ExactOnly: plan.ExactOnly != "",
	}
}

// CommitSubject begins the SubjectID of an ask about the changes of a call; workspace and root
// follow: "commit:default:sha256:...".
const CommitSubject = "commit:"

// SessionSubject begins the SubjectID of an ask to extend a session; the session follows.
const SessionSubject = "session:"

// SessionTool is the reserved name of the tool in the binding of an ask about a session.
const SessionTool = "session.extend"

// AboutSession reports whether r is about a session instead of a call.
func (r Record) AboutSession() bool {
	return strings.HasPrefix(r.SubjectID, SessionSubject) && r.Binding.Tool == SessionTool
}

// The tools in the bindings of asks about the gateway. These names are reserved.
const (
	ChangeTool  = "gateway.change"
	PairingTool = "device.pair"
)

// GatewayTool is the name in the binding of an ask about the gateway; "" for other types.
func GatewayTool(t SubjectType) string {
	switch t {
	case SubjectGatewayChange:
		return ChangeTool
	case SubjectDevicePairing:
		return PairingTool
	default:
		return ""
	}
}

// AboutGateway reports whether r is about the gateway itself (its members, devices or
// configuration) instead of a call. The valid approvers are then set in code and not by policy,
// and an approval covers only that change.
func (r Record) AboutGateway() bool {
	name := GatewayTool(r.SubjectType)
	return name != "" && r.Binding.Tool == name
}

// heldByFreeze reports whether a freeze stops the ask. Changes of the gateway, including the
// one that ends the freeze, can be approved during a freeze; the pairing of devices waits.
func heldByFreeze(t SubjectType) bool { return t != SubjectGatewayChange }

func isCommit(subjectID string) bool { return strings.HasPrefix(subjectID, CommitSubject) }

// AboutCommit reports whether r is about the changes of a call that ran instead of a call.
func (r Record) AboutCommit() bool { return isCommit(r.SubjectID) }

// AboutSecret reports whether r is about a secret that the program of a call gets in plain
// text. An approval covers only that call.
func (r Record) AboutSecret() bool { return r.SubjectType == SubjectSecretAccess }

// ComparedPrefixes are the prefixes that ComparedAs adds to the name of a tool.
var ComparedPrefixes = []string{"secret:", CommitSubject}

// ComparedAs is the name under which Store.LastAllowed finds r. It is the tool's name for a
// call, with the prefix "commit:" for the changes of a call and "secret:" for a secret. Commits
// are thus compared with commits, and calls with calls.
func (r Record) ComparedAs() string {
	if r.AboutSecret() {
		return "secret:" + r.Binding.Tool
	}
	if r.AboutCommit() {
		return CommitSubject + r.Binding.Tool
	}
	return r.Binding.Tool
}

// check sets the ask's defaults. It rejects an ask whose binding does not describe its
// proposal: approvers see the proposal, but they approve the binding.
func (a *Ask) check(l Limits) error {
	digest, err := a.Plan.Binding.Digest()
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "digesting the call: %w", err)
	}
	if a.CallDigest = cmp.Or(a.CallDigest, digest); a.CallDigest != digest {
		return reason.Errorf(reason.BindingMismatch, "the ask names call digest %s, its binding has %s", a.CallDigest, digest)
	}
	if a.Proposal.Caller.Principal.IsZero() {
		return reason.Errorf(reason.Unauthenticated, "the ask has no principal")
	}
	if wrong := a.unbound(); len(wrong) > 0 {
		return reason.Errorf(reason.BindingMismatch, "the binding does not describe the proposal: %s", strings.Join(wrong, ", ")).
			WithField("fields", strings.Join(wrong, ","))
	}
	a.Timeout = min(max(cmp.Or(max(a.Timeout, 0), l.Timeout), l.TimeoutMin), l.TimeoutMax)
	a.SubjectType = cmp.Or(a.SubjectType, SubjectTool)
	a.SubjectID = cmp.Or(a.SubjectID, a.Plan.Subject, a.Proposal.Tool.Name)
	a.Severity = cmp.Or(a.Severity, a.Prompt.Severity)
	a.Prompt.Severity = a.Severity
	return nil
}

// unbound names the fields in which binding and proposal differ.
func (a *Ask) unbound() []string {
	var wrong []string
	b := &a.Plan.Binding
	if b.Principal != a.Proposal.Caller.Principal.String() {
		wrong = append(wrong, "principal")
	}
	if b.OnBehalfOf != a.Proposal.Caller.OnBehalfOf.String() {
		wrong = append(wrong, "on_behalf_of")
	}
	if name := GatewayTool(a.SubjectType); b.Tool != a.Proposal.Tool.Name || name != "" && b.Tool != name || name == "" && (b.Tool == ChangeTool || b.Tool == PairingTool) {
		wrong = append(wrong, "tool")
	}
	return wrong
}

// record creates the pending record of a checked ask.
func (a Ask) record(id string, at time.Time) (Record, error) {
	binding, err := redacted(a)
	if err != nil {
		return Record{}, err
	}
	p := a.Proposal
	prompt := a.Prompt
	if len(a.Edits) > 0 {
		prompt.Changed, prompt.Notes = a.Changed, append([]string{editedNote(a.Edits)}, prompt.Notes...)
	}
	return Record{
		Edits: a.Edits,

		ID: id, ProposalID: p.ID, CallDigest: a.CallDigest, SnapshotDigest: a.SnapshotDigest,
		SubjectType: a.SubjectType, SubjectID: shownSubject(a.SubjectID), Subject: shownSubject(a.Plan.Subject),
		SubjectCovers: text.Visible(tool.RedactText(a.Plan.SubjectCovers)), ExactOnly: text.Visible(tool.RedactText(a.Plan.ExactOnly)),
		Severity: a.Severity,
		Prompt:   prompt.clean(), RequestedBy: p.Caller.Principal, OnBehalfOf: p.Caller.OnBehalfOf,
		Run: p.Run, Session: p.Session, Device: p.Caller.DeviceID, Channel: p.Channel,
		CreatedAt: at, ExpiresAt: at.Add(a.Timeout), Missing: a.Missing, Needs: a.Needs, Votes: []Vote{},
		Binding: binding, Request: a.Request,
	}, nil
}

// redacted returns the ask's binding in the form that may be stored and displayed. Values at
// the tool's secret paths and text in the form of a key are replaced.
func redacted(a Ask) (tool.Binding, error) {
	shown, _, err := redactBinding(a.Plan.Binding, a.Proposal.Tool.SecretPaths)
	return shown, err
}

// redactBinding also reports whether anything was replaced.
func redactBinding(b tool.Binding, secretPaths []string) (shown tool.Binding, hidden bool, err error) {
	text, err := canonical.Marshal(b)
	if err != nil {
		return b, false, err
	}
	text, found, err := tool.Redact(text, tool.PathsBelow("/arguments", secretPaths))
	if err != nil || len(found) == 0 {
		return b, false, err
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		return b, false, fmt.Errorf("reading the redacted binding: %w", err)
	}
	return shown, true, nil
}

// shownSubject returns a subject in the form that records and grants store. Text in the form of
// a key is redacted; the digest of the whole subject is then appended, so that two different
// subjects stay different.
func shownSubject(subject string) string {
	safe := tool.RedactText(subject)
	if safe == subject {
		return subject
	}
	return safe + " " + canonical.Digest([]byte(subject))
}

// callKey identifies identical asks, which share one record.
type callKey struct {
	principal, onBehalfOf access.Principal
	session, callDigest   string
	// reason is the requester's reason: votes for one reason do not apply to another.
	reason string
}

func keyOf(a Ask) callKey {
	return callKey{a.Proposal.Caller.Principal, a.Proposal.Caller.OnBehalfOf, a.Proposal.Session, a.CallDigest, text.Visible(tool.RedactText(a.Prompt.RequesterReason))}
}

func keyOfRecord(r Record) callKey {
	return callKey{r.RequestedBy, r.OnBehalfOf, r.Session, r.CallDigest, r.Prompt.RequesterReason}
}

// SubjectType is the type of the subject of a record.
type SubjectType string

// The subject types.
const (
	SubjectTool          SubjectType = "tool"
	SubjectSecretAccess  SubjectType = "secret_access"
	SubjectDevicePairing SubjectType = "device_pairing"
	SubjectGatewayChange SubjectType = "gateway_change"
)
