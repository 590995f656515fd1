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

// decide makes the decision and its record durable, unless the call is recorded at once. The
// permit is created afterwards and is nil for a denial.
func (c *call) decide(ctx context.Context, record *decision.Record) (*decision.Permit, error) {
	in := c.decisionInput()
	*record = decision.Make(in)
	c.decisionID = record.ID
	if c.atOnce = record.Allowed && c.recordsAtOnce(); c.atOnce {
		return decision.Mint(in), c.add(c.decided(record))
	}
	err := c.writeDecision(ctx, record.Allowed,
		func() (event.Draft, error) { return c.decided(record) },
		func(lost *reason.Error) {
			record.Allowed, record.Reason, record.Message, record.Remedy = false, lost.Code, lost.Message, lost.NextStep()
		})
	if err != nil {
		return nil, err
	}
	c.observe(Event{Decision: record, Restricted: func() bool { return c.restricted(ctx) }})
	if !record.Allowed {
		return nil, nil
	}
	return decision.Mint(in), nil
}

// decided returns the event of a decision. Calls that run without an approval are counted.
func (c *call) decided(record *decision.Record) (event.Draft, error) {
	d, err := newDraft(event.Decided, c.proposal, *record)
	if record.Allowed && c.answer.Kind() != approval.ByApproval && record.Joins == "" {
		d.Unasked = &event.Unasked{
			RequestedBy: c.proposal.Caller.Principal.String(), OnBehalfOf: c.proposal.Caller.OnBehalfOf.String(),
			Tool: c.proposal.Tool.Name, Subject: c.plan.Subject, CallDigest: c.digest,
		}
	}
	return d, err
}

// decisionInput collects the inputs of the decision.
func (a *authorization) decisionInput() *decision.Input {
	return &decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: a.proposal.ID, CallDigest: a.digest, FactsDigest: policy.BoundDigest(&a.plan),
		Verdict: a.verdict, Answer: a.answer, Budget: a.budget, Now: time.Now().UTC(),
	}
}

// recordsAtOnce reports whether proposal, verdict, decision and outcome may become durable in
// one transaction when the call has ended. This holds for tools that cannot have an effect: no
// event of such a call is sent before, so a crash loses no effect. Calls with an idempotency
// key, an approval or a grant are always recorded step by step.
func (c *call) recordsAtOnce() bool {
	return c.claim == nil && !usesAnswer(&c.answer) && c.Dispatcher.Effectless(c.proposal.Tool.Name)
}

// writeDecision makes a decision durable, as the event that draft returns. The approval or
// grant that allows it is consumed in the same transaction, so that no revocation and no second
// call can come in between. If the answer was revoked, used or expired before, lost is called,
// which turns the decision into a denial, and the denial is recorded. A denial releases the
// answer.
func (a *authorization) writeDecision(ctx context.Context, allowed bool, draft func() (event.Draft, error), lost func(*reason.Error)) error {
	if allowed && usesAnswer(&a.answer) {
		taken, err := a.useAnswer(ctx, draft)
		if taken == nil {
			return err
		}
		lost(taken)
		allowed = false
	}
	if err := a.add(draft()); err != nil {
		return err
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	if !allowed {
		a.release()
	}
	return nil
}

// useAnswer makes a decision durable together with the use of its answer. If the answer is not
// valid anymore, it returns the reason as taken, and nothing is decided.
func (a *authorization) useAnswer(ctx context.Context, draft func() (event.Draft, error)) (taken *reason.Error, err error) {
	if err := a.flush(ctx); err != nil {
		return nil, err
	}
	decided, err := draft()
	if err != nil {
		return nil, err
	}
	err = a.Approver.Consume(context.WithoutCancel(ctx), a.answer, decided)
	if taken = answerLost(err); taken != nil {
		return taken, nil
	}
	return nil, unwritten(err)
}

// release returns the unused answer to the desk.
func (a *authorization) release() { a.Approver.Release(a.answer) }

// usesAnswer reports whether the decision consumes an approval or a grant.
func usesAnswer(a *approval.Answer) bool {
	return a.Kind() == approval.ByApproval || a.Kind() == approval.ByGrant
}

// answerLost returns the reason if err means that the answer is not valid anymore, otherwise
// nil.
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
