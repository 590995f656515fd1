package call

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// decided is a call with its decision. The permit is nil for a denial.
type decided struct {
	*answered
	record decision.Record
	permit *decision.Permit
	// atOnce is true if the decision becomes durable together with the outcome.
	atOnce bool
}

// decide makes the decision and its record durable, unless the call is recorded at once. The
// permit is created afterwards.
func (c *call) decide(ctx context.Context, a *answered) (*decided, error) {
	in := a.decisionInput()
	d := &decided{answered: a, record: decision.Make(in)}
	if d.atOnce = d.record.Allowed && c.recordsAtOnce(a); d.atOnce {
		d.permit = decision.Mint(in)
		return d, c.drafts.add(d.draftDecided())
	}
	err := a.writeDecision(ctx, d.record.Allowed, d.draftDecided, func(lost *reason.Error) {
		d.record.Allowed, d.record.Reason, d.record.Message, d.record.Remedy = false, lost.Code, lost.Message, lost.NextStep()
	})
	if err != nil {
		return nil, err
	}
	c.observe(Event{Decision: &d.record, Restricted: func() bool { return a.restricted(ctx) }})
	if d.record.Allowed {
		d.permit = decision.Mint(in)
	}
	return d, nil
}

// draftDecided returns the event of the decision. Calls that run without an approval are counted.
func (d *decided) draftDecided() (event.Draft, error) {
	draft, err := newDraft(event.Decided, &d.proposal, d.record)
	if d.record.Allowed && d.answer.Kind() != approval.ByApproval && d.record.Joins == "" {
		draft.Unasked = &event.Unasked{
			RequestedBy: d.proposal.Caller.Principal.String(), OnBehalfOf: d.proposal.Caller.OnBehalfOf.String(),
			Tool: d.proposal.Tool.Name, Subject: d.plan.Subject, CallDigest: d.digest,
		}
	}
	return draft, err
}

// decisionInput collects the inputs of the decision.
func (a *answered) decisionInput() *decision.Input {
	return &decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: a.proposal.ID, CallDigest: a.digest, FactsDigest: policy.BoundDigest(&a.plan),
		Verdict: a.verdict, Answer: a.answer, Budget: a.budget, Now: time.Now().UTC(),
	}
}

// recordsAtOnce reports whether proposal, verdict, decision and outcome may become durable in
// one transaction when the call has ended. This holds for tools that cannot have an effect: no
// event of such a call is sent before, so a crash loses no effect. Calls with an idempotency
// key, an approval or a grant are always recorded step by step.
func (c *call) recordsAtOnce(a *answered) bool {
	return c.claim == nil && !usesAnswer(&a.answer) && c.Dispatcher.Effectless(a.proposal.Tool.Name)
}

// writeDecision makes a decision durable, as the event that draft returns. The approval or
// grant that allows it is consumed in the same transaction, so that no revocation and no second
// call can come in between. If the answer was revoked, used or expired before, lost is called,
// which turns the decision into a denial, and the denial is recorded. A denial releases the
// answer.
func (a *answered) writeDecision(ctx context.Context, allowed bool, draft func() (event.Draft, error), lost func(*reason.Error)) error {
	if allowed && usesAnswer(&a.answer) {
		if err := a.drafts.flush(ctx); err != nil {
			return err
		}
		decision, err := draft()
		if err != nil {
			return err
		}
		err = a.Approver.Consume(context.WithoutCancel(ctx), a.answer, decision)
		taken := answerLost(err)
		if taken == nil {
			return unwritten(err)
		}
		lost(taken)
		allowed = false
	}
	if err := a.drafts.add(draft()); err != nil {
		return err
	}
	if err := a.drafts.flush(ctx); err != nil {
		return err
	}
	if !allowed {
		a.Approver.Release(a.answer)
	}
	return nil
}

// usesAnswer reports whether the decision consumes an approval or a grant.
func usesAnswer(a *approval.Answer) bool {
	return a.Kind() == approval.ByApproval || a.Kind() == approval.ByGrant
}

// answerLost returns the reason if err means that the answer is not valid anymore.
func answerLost(err error) *reason.Error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return nil
	}
	switch known.Code {
	case reason.ApprovalRevoked, reason.ApprovalExpired, reason.ApprovalConflict, reason.ApprovalCancelled,
		reason.ApprovalDenied, reason.BindingMismatch, reason.GatewayFrozen, reason.NotFound:
		return known
	}
	return nil
}
