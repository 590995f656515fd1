package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
	"palyra/internal/toolcall"
)

// maxCallEvents is more than one call ever has.
const maxCallEvents = 100

// clockSlack is by how much the clock may have been set back between a
// decision's id and its event.
const clockSlack = time.Minute

// pastCall is what the journal holds of a call.
type pastCall struct {
	proposed toolcall.ProposedPayload
	// evaluations are what policy said, the last one last; those of commits are
	// among them.
	evaluations []evaluated
	// gates are the rulings on what the call changed, the last one last.
	gates   []gated
	decided decision.Record
	refused toolcall.RefusedPayload
}

// evaluated is an EvaluatedPayload as it is read: only policy makes a Verdict.
type evaluated struct {
	CallDigest string         `json:"call_digest"`
	Request    policy.Request `json:"request"`
	Verdict    verdictKept    `json:"verdict"`
}

// gated is a GatedPayload as it is read.
type gated struct {
	toolcall.GateResult
	CallDigest string      `json:"call_digest"`
	ApprovalID string      `json:"approval_id"`
	Verdict    verdictKept `json:"verdict"`
}

type verdictKept struct {
	Effect      string               `json:"effect"`
	Determining []policy.Determining `json:"determining"`
	GrantID     string               `json:"grant_id"`
	Snapshot    string               `json:"snapshot_digest"`
}

// Past finds a call by the id of its proposal or its decision, or of an approval
// that it asked for, with the set that judged it. The id of an approval of what
// the call changed finds that commit, and so does the proposal's if a commit was
// refused. What is not the caller's own is part of the journal: for those
// who may not read that, it is not found, in the words for an unknown id.
func (p *policies) Past(ctx context.Context, by access.Caller, id string) (rpc.PastCall, error) {
	call, asked, err := p.pastCall(ctx, id)
	if err != nil {
		return rpc.PastCall{}, err
	}
	if !call.of(by.Principal) && !p.g.engine.Current().Authorize(policy.AccessRequest{Caller: by, Permission: access.PermJournalRead}).Allowed {
		return rpc.PastCall{}, noCall(id)
	}
	if len(call.evaluations) == 0 {
		return rpc.PastCall{}, reason.Errorf(reason.NotFound, "call %s has no verdict: it ended before policy was asked: %s", call.proposed.ProposalID, call.refused.Message).
			WithRemedy("`palyra journal tail` shows what happened instead.")
	}
	said, decided, notes := call.subject(id, asked)
	inputs, err := p.g.db.SnapshotInputs(ctx, said.Verdict.Snapshot)
	if err != nil {
		return rpc.PastCall{}, err
	}
	if inputs == nil {
		return rpc.PastCall{}, cannotExplain(said.Verdict.Snapshot, "it was judged by an earlier version of palyrad, which did not keep what its policies were made of")
	}
	past := rpc.PastCall{ProposalID: call.proposed.ProposalID, Decision: decided, Request: said.Request, Notes: notes}
	if past.Set, err = policy.Restore(inputs, said.Verdict.Snapshot); err != nil {
		return rpc.PastCall{}, err
	}
	if past.Request.Commit == nil {
		if past.Request.Args, err = p.arguments(ctx, call.proposed); err != nil {
			return rpc.PastCall{}, err
		}
	}
	if said.Verdict.GrantID != "" {
		g, err := sqlite.NewApprovals(p.g.db).Grant(ctx, said.Verdict.GrantID)
		if err != nil {
			return rpc.PastCall{}, err
		}
		past.Grants = []policy.Grant{toolcall.GrantAt(g, past.Request.Time)}
	}
	return past, said.Verdict.check(past, call.proposed.Redactions)
}

// check makes sure that the explanation will be about what was decided: the
// same policies, asked the same, have to say the same.
func (v verdictKept) check(past rpc.PastCall, redacted []string) error {
	now := past.Set.Evaluate(past.Request, past.Grants)
	same := now.Effect().String() == v.Effect && slices.EqualFunc(now.Determining(), v.Determining, func(a, b policy.Determining) bool { return a.ID == b.ID })
	switch {
	case same:
		return nil
	case len(redacted) > 0:
		return cannotExplain(v.Snapshot, "secrets were removed from its arguments before they were journaled, and without them its policies decide otherwise")
	}
	return cannotExplain(v.Snapshot, fmt.Sprintf("this version of palyrad comes to %s with them, and it was %s", now.Effect(), v.Effect))
}

func cannotExplain(snapshot, why string) error {
	return reason.Errorf(reason.VerificationFailed, "the call cannot be explained under the policies that judged it: %s", why).
		WithRemedy("`palyra policy snapshot %s` shows these policies; `palyra policy explain TOOL ...` explains such a call under those in force.", snapshot)
}

// of reports whether a principal made the call, or somebody on its behalf did.
func (c *pastCall) of(p access.Principal) bool {
	who := p.String()
	return who == c.proposed.Principal || who == c.proposed.OnBehalfOf || who == c.refused.Principal
}

// subject picks what an id is about: the commit that the approval with the call
// digest asked is for, a refused commit of the proposal, else the call.
func (c *pastCall) subject(id, asked string) (evaluated, decision.Record, []string) {
	commit := func(e evaluated) bool { return e.Request.Commit != nil && e.CallDigest == asked }
	if n := len(c.gates); asked == "" && id == c.proposed.ProposalID && n > 0 && !c.gates[n-1].Allowed {
		asked = c.gates[n-1].CallDigest
	}
	if !slices.ContainsFunc(c.evaluations, commit) {
		call := func(e evaluated) bool { return e.Request.Commit == nil }
		return c.evaluation(call, c.decided.SnapshotDigest), c.decided, c.notes()
	}
	notes := []string{"this is about what the call changed in its copy of the workspace"}
	if c.decided.ID != "" {
		notes[0] += "; the call itself: palyra policy explain " + c.decided.ID
	}
	for _, g := range slices.Backward(c.gates) {
		if g.CallDigest != asked {
			continue
		}
		if g.ApprovalID != "" && g.Allowed {
			notes = append(notes, "people allowed it: approval "+g.ApprovalID)
		}
		return c.evaluation(commit, g.Verdict.Snapshot), decision.Record{
			ID: c.decided.ID, Allowed: g.Allowed, Reason: g.Reason, Message: g.Message, Remedy: g.Remedy,
		}, notes
	}
	return c.evaluation(commit, ""), decision.Record{}, append(notes, "the commit is not decided yet")
}

// evaluation is the last one among those wanted that was made with a snapshot;
// the last one of all when none was. There is one: of a call always, of a commit
// that was looked for.
func (c *pastCall) evaluation(wanted func(evaluated) bool, snapshot string) evaluated {
	var list []evaluated
	for _, e := range c.evaluations {
		if wanted(e) {
			list = append(list, e)
		}
	}
	for _, e := range slices.Backward(list) {
		if e.Verdict.Snapshot == snapshot {
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

// pastCall reads the events of a call. asked is the call digest that an approval
// is for, when the id is that of one.
func (p *policies) pastCall(ctx context.Context, id string) (call pastCall, asked string, err error) {
	list, err := p.g.journal.List(ctx, journal.Filter{Subject: id, Limit: maxCallEvents})
	switch {
	case err != nil:
	case len(list) == 0:
		list, err = p.eventsOfDecision(ctx, id)
	case list[0].Code == event.Asked:
		list, asked, err = p.eventsOfApproval(ctx, list[0])
	}
	if err != nil {
		return call, "", err
	}
	for _, e := range list {
		if err := call.add(e); err != nil {
			return call, "", err
		}
	}
	if call.proposed.ProposalID == "" && call.refused.ProposalID == "" {
		return call, "", noCall(id)
	}
	return call, asked, nil
}

// eventsOfApproval returns the events of the call that asked first.
func (p *policies) eventsOfApproval(ctx context.Context, asked journal.Event) ([]journal.Event, string, error) {
	var about approval.AskedPayload
	if err := json.Unmarshal(asked.Payload, &about); err != nil {
		return nil, "", fmt.Errorf("reading event %d of approval %s: %w", asked.Seq, asked.Subject, err)
	}
	list, err := p.g.journal.List(ctx, journal.Filter{Subject: about.ProposalID, Limit: maxCallEvents})
	return list, about.CallDigest, err
}

func (p *policies) eventsOfDecision(ctx context.Context, id string) ([]journal.Event, error) {
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%q is no id of a decision or a proposal", id)
	}
	proposal, found, err := p.g.db.ProposalOf(ctx, id, parsed.Timestamp().Add(-clockSlack))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, noCall(id)
	}
	return p.g.journal.List(ctx, journal.Filter{Subject: proposal, Limit: maxCallEvents})
}

func noCall(id string) error {
	return reason.Errorf(reason.NotFound, "no proposal, no decision and no approval has the id %s", id).
		WithRemedy("`palyra journal tail` shows the ids of calls in the column SUBJECT.")
}

func (c *pastCall) add(e journal.Event) error {
	var into any
	var one evaluated
	var ruling gated
	switch e.Code {
	case event.Proposed:
		into = &c.proposed
	case event.Evaluated:
		into = &one
	case event.Gated:
		into = &ruling
	case event.Decided:
		into = &c.decided
	case event.Refused:
		into = &c.refused
	default:
		return nil
	}
	if len(e.Payload) == 0 {
		return reason.Errorf(reason.NotFound, "event %d of call %s was erased", e.Seq, e.Subject)
	}
	if err := json.Unmarshal(e.Payload, into); err != nil {
		return fmt.Errorf("reading event %d of call %s: %w", e.Seq, e.Subject, err)
	}
	switch e.Code {
	case event.Evaluated:
		c.evaluations = append(c.evaluations, one)
	case event.Gated:
		c.gates = append(c.gates, ruling)
	}
	return nil
}

// arguments are those of a proposal as they were journaled.
func (p *policies) arguments(ctx context.Context, proposed toolcall.ProposedPayload) ([]byte, error) {
	if proposed.ArgumentsBlob == "" {
		return proposed.Arguments, nil
	}
	return p.g.db.Blob(ctx, proposed.ArgumentsBlob)
}
