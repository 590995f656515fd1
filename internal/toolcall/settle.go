package toolcall

import (
	"context"
	"time"

	"palyra/internal/approval"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
)

// settle gets the verdict and, where it asks, the answer. A policy that
// changed while humans were asked is asked again, and the votes of an answer
// always have to satisfy the policy that is in force now: they may have been
// judged by another one, for an identical call or in between two reloads.
func (c *call) settle(ctx context.Context) error {
	if err := c.evaluate(ctx); err != nil {
		return err
	}
	if err := c.resolve(ctx); err != nil {
		return err
	}
	if c.answer.Allowed() && c.Evaluator.Current().SnapshotDigest() != c.verdict.SnapshotDigest() {
		if err := c.settleAgain(ctx); err != nil {
			return err
		}
	}
	if c.verdict.Effect() == policy.Ask && c.answer.Allowed() && !c.stillEnough() {
		c.answer = approval.Answer{}
	}
	return nil
}

// settleAgain evaluates the call under the policy now in force. What is
// allowed now without the people who were asked does not use their answer up.
func (c *call) settleAgain(ctx context.Context) error {
	if err := c.evaluate(ctx); err != nil {
		return err
	}
	if c.verdict.Effect() != policy.Allow {
		return nil
	}
	c.Approver.Release(c.answer)
	return c.resolve(ctx)
}

func (c *call) evaluate(ctx context.Context) error {
	grants, err := c.grants(ctx)
	if err != nil {
		return err
	}
	verdict, err := c.Evaluator.Evaluate(ctx, c.request, grants)
	switch {
	case err != nil && ctx.Err() != nil:
		return reason.Errorf(reason.Cancelled, "the caller left before the call was decided: %w", ctx.Err())
	case err != nil:
		return reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	c.verdict = verdict
	request := c.request
	request.Args = nil
	return c.draftRedacted(event.Evaluated, EvaluatedPayload{
		ProposalID: c.proposal.ID, CallDigest: c.digest, Verdict: verdict, Request: request,
	})
}

// grants are the standing grants that match the call.
func (c *call) grants(ctx context.Context) ([]policy.Grant, error) {
	list, err := c.Approver.Grants(ctx, approval.GrantQuery{
		Principal: c.sub.Caller.Principal, OnBehalfOf: c.sub.Caller.OnBehalfOf, Session: c.proposal.Session,
		Tool: c.proposal.Tool.Name, ToolDefinition: c.plan.Binding.ToolDefinitionDigest,
		Subject: c.plan.Subject, CallDigest: c.digest, Commit: c.request.Commit != nil,
	})
	return policyGrants(list, c.LiveDevice, c.request.Time), err
}

// resolve finds the answer that the verdict needs. Nobody is asked about a
// call that has no budget left.
func (c *call) resolve(ctx context.Context) error {
	switch {
	case c.budget.Used > c.budget.Limit, c.verdict.Effect() == policy.Deny:
		return nil
	case c.verdict.Effect() == policy.Allow && c.verdict.GrantID() == "":
		c.answer = approval.NotNeeded()
		return nil
	}
	ask, err := c.ask()
	if err != nil {
		return err
	}
	if c.verdict.Effect() == policy.Allow {
		c.answer, err = c.Approver.GrantAnswer(ctx, c.verdict.GrantID(), *ask)
		return err
	}
	return c.askPeople(ctx, ask)
}

// askPeople waits for their answer.
func (c *call) askPeople(ctx context.Context, ask *approval.Ask) error {
	// What led to the ask is durable before anyone is asked.
	if err := c.flush(ctx); err != nil {
		return err
	}
	resolved, err := c.resolved(ctx)
	if err != nil {
		return err
	}
	ask.Resolved = resolved
	answer, err := c.Approver.Resolve(ctx, ask, c.observeAsk())
	if err != nil {
		return err
	}
	c.answer = answer
	c.observe(Event{Resolved: &answer})
	return nil
}

// stillEnough asks the policy now in force about the votes that were cast.
func (c *call) stillEnough() bool {
	facts := policy.Approval{
		Votes: policyVotes(c.answer.Votes(), c.LiveDevice), Now: time.Now().UTC(),
		Standing: c.answer.Kind() == approval.ByGrant,
	}
	return c.Evaluator.Current().Judge(c.request, facts).Allowed
}
