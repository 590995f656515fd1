package toolcall

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/approval"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
)

// decide makes the decision durable, unless the call is recorded at once. An
// approval or grant is used up in the same transaction, so that a revoke or a
// second call cannot slip between.
func (c *call) decide(ctx context.Context) (decision.Record, *decision.Permit, error) {
	record, permit := decision.Make(decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: c.proposal.ID, CallDigest: c.digest, FactsDigest: policy.BoundDigest(c.plan),
		Verdict: c.verdict, Answer: c.answer, Budget: c.budget, Now: time.Now().UTC(),
	})
	c.decisionID = record.ID
	record, permit, err := c.writeDecision(context.WithoutCancel(ctx), record, permit)
	if err != nil {
		return record, nil, err
	}
	if permit == nil {
		c.Approver.Release(c.answer)
	}
	if !c.atOnce {
		c.observe(Event{Decision: &record})
	}
	return record, permit, nil
}

// recordsAtOnce reports whether proposal, verdict, decision and outcome may
// become durable together when the call has ended. Its tool cannot have an
// effect, and nobody is told of the decision before: a crash in between loses
// nothing that happened. A call that holds an idempotency key, or uses an
// approval or a grant, is recorded as it goes.
func (c *call) recordsAtOnce() bool {
	return c.claim == nil && !usesAnswer(c.answer) && c.Dispatcher.Effectless(c.proposal.Tool.Name)
}

func (c *call) writeDecision(ctx context.Context, record decision.Record, permit *decision.Permit) (decision.Record, *decision.Permit, error) {
	if permit == nil || !usesAnswer(c.answer) {
		if err := c.draft(event.Decided, record); err != nil {
			return record, nil, err
		}
		if c.atOnce = permit != nil && c.recordsAtOnce(); c.atOnce {
			return record, permit, nil
		}
		return record, permit, c.flush(ctx)
	}
	if err := c.flush(ctx); err != nil {
		return record, nil, err
	}
	decided, err := newDraft(event.Decided, c.proposal, record)
	if err != nil {
		return record, nil, err
	}
	err = c.Approver.Consume(ctx, c.answer, decided)
	if lost := answerLost(err); lost != nil {
		// Somebody revoked, used or outlived the answer first: the call is
		// denied, and the denial is what gets recorded.
		record.Allowed, record.Reason, record.Message, record.Remedy = false, lost.Code, lost.Message, lost.NextStep()
		if err := c.draft(event.Decided, record); err != nil {
			return record, nil, err
		}
		return record, nil, c.flush(ctx)
	}
	return record, permit, unwritten(err)
}

// usesAnswer reports whether the decision uses an approval or a grant.
func usesAnswer(a approval.Answer) bool {
	return a.Kind() == approval.ByApproval || a.Kind() == approval.ByGrant
}

// answerLost returns the reason when err says that the answer is no longer
// good, and nil when it says anything else.
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
