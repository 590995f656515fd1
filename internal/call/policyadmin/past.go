package policyadmin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// maxCallEvents is an upper bound on the events of one call.
const maxCallEvents = 100

// clockSlack is the tolerated backward step of the clock between a decision's id and its event.
const clockSlack = time.Minute

// pastCall is a call as journaled.
type pastCall struct {
	record.Story
	// proposed, decided and refused are empty for steps that did not happen.
	proposed record.Proposed
	decided  decision.Record
	refused  record.Refused
}

// PastCall is a judged call with the set that judged it.
type PastCall struct {
	ProposalID string
	// Decision is zero while the call is undecided.
	Decision decision.Record
	Set      *policy.Set
	// Request has the arguments as they were journaled, without secrets.
	Request policy.Request
	Grants  []policy.Grant
	// Notes are remarks for the reader.
	Notes []string
}

// PastCalls finds judged calls with the sets that judged them.
type PastCalls struct {
	engine  *policy.Engine
	store   Store
	journal Journal
	grants  Grants
}

// Past finds a call with the set that judged it, by the id of its proposal, its decision, or
// one of its approvals. The id of an approval of a commit finds that commit, and so does the
// proposal's id if a commit was refused. A caller who may not read the journal gets the error
// for an unknown id for calls of other principals.
func (c *PastCalls) Past(ctx context.Context, by access.Caller, id string) (PastCall, error) {
	one, approvalDigest, err := c.find(ctx, id)
	if err != nil {
		return PastCall{}, err
	}
	if !one.of(by.Principal) && !c.engine.Current().Access().Authorize(policy.AccessRequest{Caller: by, Permission: access.PermJournalRead}).Allowed {
		return PastCall{}, noCall(id)
	}
	if len(one.Evaluations) == 0 {
		return PastCall{}, reason.Errorf(reason.NotFound, "call %s has no verdict: it ended before policy was evaluated: %s", one.proposed.ProposalID, one.refused.Message).
			WithRemedy("`palyra journal tail` shows what happened instead.")
	}
	evaluated, decided, notes := one.subject(id, approvalDigest)
	inputs, err := c.store.SnapshotInputs(ctx, evaluated.Verdict.SnapshotDigest)
	if err != nil {
		return PastCall{}, err
	}
	if inputs == nil {
		return PastCall{}, cannotExplain(evaluated.Verdict.SnapshotDigest, "it was judged by an earlier version of palyrad, which did not keep what its policies were made of")
	}
	past := PastCall{ProposalID: one.proposed.ProposalID, Decision: decided, Request: evaluated.Request, Notes: notes}
	if past.Set, err = policy.Restore(inputs, evaluated.Verdict.SnapshotDigest); err != nil {
		return PastCall{}, err
	}
	if past.Request.Commit == nil {
		if past.Request.Args, err = c.arguments(ctx, one.argumentsOf(evaluated.CallDigest)); err != nil {
			return PastCall{}, err
		}
	}
	if evaluated.Verdict.GrantID != "" {
		g, err := c.grants.Grant(ctx, evaluated.Verdict.GrantID)
		if err != nil {
			return PastCall{}, err
		}
		past.Grants = []policy.Grant{call.GrantAt(g, past.Request.Time)}
	}
	return past, check(evaluated.Verdict, past, one.proposed.Redactions)
}

// argumentsOf returns the proposal with the arguments of the judged call, which are the edited
// ones if people edited it.
func (c *pastCall) argumentsOf(digest string) record.Proposed {
	out := c.proposed
	for _, e := range c.Edits {
		if e.CallDigest == digest {
			out.Arguments, out.ArgumentsBlob = e.Arguments, e.ArgumentsBlob
		}
	}
	return out
}

// check verifies that the explanation applies to the decision: the same policies must return
// the same verdict for the same request.
func check(v record.Verdict, past PastCall, redacted []string) error {
	now := past.Set.Evaluate(past.Request, past.Grants)
	same := now.Effect().String() == v.Effect && slices.EqualFunc(now.Determining(), v.Determining, func(a, b policy.Determining) bool { return a.ID == b.ID })
	switch {
	case same:
		return nil
	case len(redacted) > 0:
		return cannotExplain(v.SnapshotDigest, "secrets were removed from its arguments before they were journaled, and without them its policies decide otherwise")
	}
	return cannotExplain(v.SnapshotDigest, fmt.Sprintf("this version of palyrad comes to %s with them, and it was %s", now.Effect(), v.Effect))
}

func cannotExplain(snapshot, why string) error {
	return reason.Errorf(reason.VerificationFailed, "the call cannot be explained under the policies that judged it: %s", why).
		WithRemedy("`palyra policy snapshot %s` shows these policies; `palyra policy explain TOOL ...` explains such a call under those in force.", snapshot)
}

// of reports whether the call was made by, or on behalf of, a principal.
func (c *pastCall) of(p access.Principal) bool {
	who := p.String()
	return who == c.proposed.Principal || who == c.proposed.OnBehalfOf || who == c.refused.Principal
}

// subject selects the subject of an id: the commit or the secret whose approval has the call
// digest approvalDigest, a refused commit or secret of the proposal, else the call.
func (c *pastCall) subject(id, approvalDigest string) (*record.Evaluated, decision.Record, []string) {
	commit := func(e *record.Evaluated) bool { return e.Request.Commit != nil && e.CallDigest == approvalDigest }
	if g := c.Gate(); approvalDigest == "" && id == c.proposed.ProposalID && g != nil && !g.Allowed {
		approvalDigest = g.CallDigest
	}
	inject := func(e *record.Evaluated) bool {
		return e.Request.Injection != nil && (e.CallDigest == approvalDigest || approvalDigest == "" && !c.decided.Allowed && e.Verdict.Effect == policy.Deny.String())
	}
	if slices.ContainsFunc(c.Evaluations, inject) {
		return c.evaluation(inject, c.decided.SnapshotDigest), c.decided, append(c.notes(), "this is about a secret that the program of the call would get")
	}
	if !slices.ContainsFunc(c.Evaluations, commit) {
		call := func(e *record.Evaluated) bool { return e.Request.Commit == nil && e.Request.Injection == nil }
		return c.evaluation(call, c.decided.SnapshotDigest), c.decided, c.notes()
	}
	notes := []string{"this is about the changes of the call in its copy of the workspace"}
	if c.decided.ID != "" {
		notes[0] += "; the call itself: palyra policy explain " + c.decided.ID
	}
	for _, g := range slices.Backward(c.Gates) {
		if g.CallDigest != approvalDigest {
			continue
		}
		if g.ApprovalID != "" && g.Allowed {
			notes = append(notes, "people allowed it: approval "+g.ApprovalID)
		}
		snapshot := ""
		if g.Verdict != nil {
			snapshot = g.Verdict.SnapshotDigest
		}
		return c.evaluation(commit, snapshot), decision.Record{
			ID: c.decided.ID, Allowed: g.Allowed, Reason: g.Reason, Message: g.Message, Remedy: g.Remedy,
		}, notes
	}
	return c.evaluation(commit, ""), decision.Record{}, append(notes, "the commit is not decided yet")
}

// evaluation returns the last wanted evaluation with a snapshot, or else the last wanted one.
// At least one must exist. A call always has one, and so does a commit that was selected.
func (c *pastCall) evaluation(wanted func(*record.Evaluated) bool, snapshot string) *record.Evaluated {
	var list []*record.Evaluated
	for _, e := range c.Evaluations {
		if wanted(e) {
			list = append(list, e)
		}
	}
	for _, e := range slices.Backward(list) {
		if e.Verdict.SnapshotDigest == snapshot {
			return e
		}
	}
	return list[len(list)-1]
}

func (c *pastCall) notes() []string {
	var notes []string
	if c.decided.ID == "" {
		notes = append(notes, "the call is not decided yet")
	}
	if c.decided.ApprovalID != "" && c.decided.Allowed {
		notes = append(notes, "people allowed it: approval "+c.decided.ApprovalID)
	}
	if len(c.proposed.Redactions) > 0 {
		notes = append(notes, "secrets were removed from the arguments before they were journaled; policy saw them, and [redacted] stands in their place")
	}
	return notes
}

// find reads the events of a call. approvalDigest is the call digest of an approval if the
// id is the id of an approval.
func (c *PastCalls) find(ctx context.Context, id string) (call pastCall, approvalDigest string, err error) {
	list, err := c.journal.List(ctx, journal.Filter{Subject: id, Limit: maxCallEvents})
	switch {
	case err != nil:
	case len(list) == 0:
		list, err = c.eventsOfDecision(ctx, id)
	case list[0].Code == event.Asked:
		list, approvalDigest, err = c.eventsOfApproval(ctx, list[0])
	}
	if err != nil {
		return call, "", err
	}
	if call.Story, err = record.Tell(list); err != nil {
		return call, "", err
	}
	if call.Proposed != nil {
		call.proposed = *call.Proposed
	}
	if call.Decided != nil {
		call.decided = *call.Decided
	}
	if call.Refused != nil {
		call.refused = *call.Refused
	}
	if call.proposed.ProposalID == "" && call.refused.ProposalID == "" {
		return call, "", noCall(id)
	}
	return call, approvalDigest, nil
}

// eventsOfApproval returns the events of the call that first requested an approval, and the
// call digest of the approval. approvalDigest is the event of the request.
func (c *PastCalls) eventsOfApproval(ctx context.Context, approvalDigest journal.Event) ([]journal.Event, string, error) {
	var about approval.AskedPayload
	if err := json.Unmarshal(approvalDigest.Payload, &about); err != nil {
		return nil, "", fmt.Errorf("reading event %d of approval %s: %w", approvalDigest.Seq, approvalDigest.Subject, err)
	}
	list, err := c.journal.List(ctx, journal.Filter{Subject: about.ProposalID, Limit: maxCallEvents})
	return list, about.CallDigest, err
}

func (c *PastCalls) eventsOfDecision(ctx context.Context, id string) ([]journal.Event, error) {
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%q is not the id of a decision or a proposal", id)
	}
	proposal, found, err := c.store.ProposalOf(ctx, id, parsed.Timestamp().Add(-clockSlack))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noCall(id)
	}
	return c.journal.List(ctx, journal.Filter{Subject: proposal, Limit: maxCallEvents})
}

func noCall(id string) error {
	return reason.Errorf(reason.NotFound, "no proposal, no decision and no approval has the id %s", id).
		WithRemedy("`palyra journal tail` shows the ids of calls in the column SUBJECT.")
}

// arguments returns the journaled arguments of a proposal.
func (c *PastCalls) arguments(ctx context.Context, proposed record.Proposed) ([]byte, error) {
	if proposed.ArgumentsBlob == "" {
		return proposed.Arguments, nil
	}
	return c.store.Blob(ctx, proposed.ArgumentsBlob)
}
