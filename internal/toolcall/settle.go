package toolcall

import (
	"context"

	"palyra/internal/approval"
	"palyra/internal/callrecord"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
)

// settle gets the verdict and, where it asks, the answer; both hold with the
// facts, and under the policy, of the moment in which it returns.
func (c *call) settle(ctx context.Context) error {
	if err := c.evaluate(ctx); err != nil {
		return err
	}
	if err := c.askToGoOn(ctx); err != nil {
		return err
	}
	return c.settleFreshly(ctx)
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
	return c.draftRedacted(event.Evaluated, callrecord.Evaluated{
		ProposalID: c.proposal.ID, CallDigest: c.digest, Verdict: callrecord.VerdictOf(verdict), Request: request, MaySend: c.plan.MaySend,
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
	c.answer, c.waited = answer, true
	c.observe(Event{Resolved: &answer})
	return nil
}
