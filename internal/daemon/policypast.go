package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/access"
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
	// evaluations are what policy said, the last one last.
	evaluations []evaluated
	decided     decision.Record
	refused     toolcall.RefusedPayload
}

// evaluated is an EvaluatedPayload as it is read: only policy makes a Verdict.
type evaluated struct {
	Request policy.Request `json:"request"`
	Verdict verdictKept    `json:"verdict"`
}

type verdictKept struct {
	Effect      string               `json:"effect"`
	Determining []policy.Determining `json:"determining"`
	GrantID     string               `json:"grant_id"`
	Snapshot    string               `json:"snapshot_digest"`
}

// Past finds a call by the id of its proposal or its decision, with the set
// that judged it. What is not the caller's own is part of the journal: for those
// who may not read that, it is not found, in the words for an unknown id.
func (p *policies) Past(ctx context.Context, by access.Caller, id string) (rpc.PastCall, error) {
	call, err := p.pastCall(ctx, id)
	if err != nil {
		return rpc.PastCall{}, err
	}
	if !call.of(by.Principal) && !p.g.engine.Current().Authorize(policy.AccessRequest{Caller: by, Permission: policy.PermJournalRead}).Allowed {
		return rpc.PastCall{}, noCall(id)
	}
	if len(call.evaluations) == 0 {
		return rpc.PastCall{}, reason.Errorf(reason.NotFound, "call %s has no verdict: it ended before policy was asked: %s", call.proposed.ProposalID, call.refused.Message).
			WithRemedy("`palyra journal tail` shows what happened instead.")
	}
	said := call.evaluation()
	inputs, err := p.g.db.SnapshotInputs(ctx, said.Verdict.Snapshot)
	if err != nil {
		return rpc.PastCall{}, err
	}
	if inputs == nil {
		return rpc.PastCall{}, cannotExplain(said.Verdict.Snapshot, "it was judged by an earlier version of palyrad, which did not keep what its policies were made of")
	}
	past := rpc.PastCall{ProposalID: call.proposed.ProposalID, Decision: call.decided, Request: said.Request, Notes: call.notes()}
	if past.Set, err = policy.Restore(inputs, said.Verdict.Snapshot); err != nil {
		return rpc.PastCall{}, err
	}
	if past.Request.Args, err = p.arguments(ctx, call.proposed); err != nil {
		return rpc.PastCall{}, err
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

// evaluation is the one that the decision rests on; the last one for a call
// that is not decided yet.
func (c *pastCall) evaluation() evaluated {
	for _, e := range slices.Backward(c.evaluations) {
		if e.Verdict.Snapshot == c.decided.SnapshotDigest {
			return e
		}
	}
	return c.evaluations[len(c.evaluations)-1]
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

// pastCall reads the events of a call.
func (p *policies) pastCall(ctx context.Context, id string) (pastCall, error) {
	list, err := p.g.journal.List(ctx, journal.Filter{Subject: id, Limit: maxCallEvents})
	if err != nil {
		return pastCall{}, err
	}
	if len(list) == 0 {
		if list, err = p.eventsOfDecision(ctx, id); err != nil {
			return pastCall{}, err
		}
	}
	var call pastCall
	for _, e := range list {
		if err := call.add(e); err != nil {
			return pastCall{}, err
		}
	}
	if call.proposed.ProposalID == "" && call.refused.ProposalID == "" {
		return pastCall{}, noCall(id)
	}
	return call, nil
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
	return reason.Errorf(reason.NotFound, "no proposal and no decision has the id %s", id).
		WithRemedy("`palyra journal tail` shows the ids of calls in the column SUBJECT.")
}

func (c *pastCall) add(e journal.Event) error {
	var into any
	var one evaluated
	switch e.Code {
	case event.Proposed:
		into = &c.proposed
	case event.Evaluated:
		into = &one
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
	if e.Code == event.Evaluated {
		c.evaluations = append(c.evaluations, one)
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
