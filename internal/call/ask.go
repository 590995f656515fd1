package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// SessionID identifies the session of a caller by its credential and by the name that the
// client declared, or "default" if it declared none.
func SessionID(c access.Caller, declared string) string {
	if declared == "" {
		declared = "default"
	}
	return c.DeviceID + "." + declared
}

// CheckClientName rejects a client-chosen name of a session or a run that has the form of a
// ULID. The gateway reserves this form for its own runs and their sessions.
func CheckClientName(what, name string) error {
	if _, err := ulid.ParseStrict(name); err == nil {
		return reason.Errorf(reason.InvalidInput, "%s %q has the form of a ULID, which is reserved for runs of the gateway", what, name).
			WithRemedy("Choose another name for the %s, or omit it. To continue a run of the gateway, send it a message over RunStream.", what)
	}
	return nil
}

// ask builds the approval request and the data that the approval binds to. It fails if policy
// requires a reason from the requester and the call has none.
func (a *authorization) ask() (*approval.Ask, error) {
	if err := a.reasonGiven(); err != nil {
		return nil, err
	}
	request, err := json.Marshal(a.request)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy request: %w", err)
	}
	prompt, err := approval.NewPrompt(a.proposal, a.plan, a.verdict.Severity(), causes(a.verdict)...)
	if err != nil {
		return nil, err
	}
	prompt.RequesterReason = a.request.RequesterReason
	covers := a.covers
	if a.request.Injection != nil {
		covers = nil // grants never cover secrets
	}
	return &approval.Ask{
		Proposal: a.proposal, Plan: a.plan, CallDigest: a.digest, SnapshotDigest: a.verdict.SnapshotDigest(),
		Request: request, Prompt: prompt, SubjectType: a.subjectType, SubjectID: a.subjectID,
		Timeout: a.verdict.Timeout(), Severity: a.verdict.Severity(), Edits: a.edits,
		Missing: a.verdict.Missing(), Needs: needs(a.verdict.Wanted()), Covers: covers,
	}, nil
}

// observeAsk passes each approval record to the call's observer once, when the approval is
// requested. Later votes are not passed on; clients receive them from WatchApprovals.
func (a *authorization) observeAsk() func(*approval.Record) {
	asked := make(map[string]bool)
	return func(r *approval.Record) {
		if !asked[r.ID] {
			asked[r.ID] = true
			a.observe(Event{Asked: r})
		}
	}
}

// covers evaluates the call with a grant that was created while the call waited.
func (a *authorization) covers(ctx context.Context, g approval.Grant) (bool, error) {
	verdict, err := a.Evaluator.Evaluate(ctx, a.request, policyGrants([]approval.Grant{g}, a.LiveDevice, time.Now().UTC()))
	return err == nil && verdict.Effect() == policy.Allow, err
}

// causes lists the policies that require an approval.
func causes(v policy.Verdict) []approval.Cause {
	var list []approval.Cause
	for _, d := range v.Determining() {
		list = append(list, approval.Cause{
			PolicyID: d.ID, Location: fmt.Sprintf("%s:%d", d.File, d.Line), Reason: d.Reason, Condition: d.Condition,
		})
	}
	return list
}

// policyGrants converts grants to the facts that policy evaluates.
func policyGrants(grants []approval.Grant, live func(string) bool, now time.Time) []policy.Grant {
	list := make([]policy.Grant, len(grants))
	for i, g := range grants {
		list[i] = policy.Grant{
			ID:       g.ID,
			Approval: policy.Approval{Votes: policyVotes(g.MintedBy, live), Standing: true, Now: now},
		}
	}
	return list
}

// policyVotes returns the votes that policy evaluates: the approving votes of devices that are
// not revoked. A denial has already ended the approval. A revoked device may have been stolen,
// and its votes may be the thief's.
func policyVotes(votes []approval.Vote, live func(string) bool) []policy.Vote {
	var list []policy.Vote
	for _, v := range votes {
		if v.Allow && live(v.Device) {
			list = append(list, policy.Vote{
				User: v.User, Roles: v.Roles, Surface: v.Surface, Paired: v.Paired, Present: v.Present, At: v.At,
			})
		}
	}
	return list
}

// needs converts the missing approvers of a verdict for display.
func needs(w *policy.Wanted) *approval.Needs {
	if w == nil {
		return nil
	}
	return &approval.Needs{
		Have: w.Have, Want: w.Have + w.More, Role: w.Role, Surfaces: w.Surfaces, Present: w.Present, Paired: w.Paired,
	}
}

// noteAsk stores the approval that the call waits for, for PastCall.WaitsFor.
func (c *call) noteAsk(e *Event) {
	switch {
	case e.Asked != nil && e.Asked.State == approval.Pending:
		id := e.Asked.ID
		c.asked.Store(&id)
	case e.Resolved != nil:
		c.asked.Store(nil)
	}
}

// join uses the answer of the announced call if policy accepts its votes and proofs for this
// call, and if the call is identical to the announced one. It applies only to the call itself,
// not to its changes or secrets, and is tried once.
func (a *authorization) join() bool {
	if a.sub.PriorAnswer == nil || a.joined || a.ran != nil || a.request.Commit != nil || a.request.Injection != nil {
		return false
	}
	a.joined = true
	if a.sub.PriorAnswer.CallDigest != a.digest {
		return false
	}
	answer, ok := a.sub.PriorAnswer.Answer.Join(a.sub.PriorAnswer.Proposal, a.digest)
	if a.answer = answer; ok && a.enough(a.request) {
		return true
	}
	a.answer = approval.Answer{}
	return false
}

// PriorAnswer is an approval of a call that its agent announced by its hook. The code that creates
// one must have verified that the call is the announced one, and must create it only once.
type PriorAnswer struct {
	// Proposal is the call as it was announced.
	Proposal string
	// Answer is the answer used in the decision on the announced call.
	Answer approval.Answer
	// CallDigest is the call digest at the time of the announcement, including the bytes of the
	// files that the call names; "" if the call could not be planned.
	CallDigest string
}
