package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// settle gets the verdict and, where it asks, the answer; both hold with the
// facts, and under the policy, of the moment in which it returns.
func (a *authorization) settle(ctx context.Context) error {
	if err := a.evaluate(ctx); err != nil {
		return err
	}
	if err := a.conflictError(); err != nil {
		return err
	}
	if a.sub.Vouch == nil { // whose answer may do without an ask
		if err := a.reasonGiven(); err != nil {
			return err
		}
	}
	if err := a.askToGoOn(ctx); err != nil {
		return err
	}
	return a.settleFreshly(ctx)
}

func (a *authorization) evaluate(ctx context.Context) error {
	grants, err := a.grants(ctx)
	if err != nil {
		return err
	}
	verdict, err := a.Evaluator.Evaluate(ctx, a.request, grants)
	switch {
	case err != nil && ctx.Err() != nil:
		return reason.Errorf(reason.Cancelled, "the caller left before the call was decided: %w", ctx.Err())
	case err != nil:
		return reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	a.verdict = verdict
	return a.draftEvaluated()
}

// draftEvaluated drafts the verdict.
func (a *authorization) draftEvaluated() error {
	request := a.request
	request.Args = nil
	return a.draftRedacted(event.Evaluated, record.Evaluated{
		ProposalID: a.proposal.ID, CallDigest: a.digest, Verdict: record.VerdictOf(a.verdict), Request: request, MaySend: a.plan.MaySend,
	})
}

// grants are the standing grants that match the call. None gives a secret to a
// program, and none covers what an editor made of a call.
func (a *authorization) grants(ctx context.Context) ([]policy.Grant, error) {
	if a.request.Injection != nil || len(a.edits) > 0 {
		return nil, nil
	}
	list, err := a.Approver.Grants(ctx, approval.GrantQuery{
		Principal: a.sub.Caller.Principal, OnBehalfOf: a.sub.Caller.OnBehalfOf, Session: a.proposal.Session,
		Tool: a.proposal.Tool.Name, ToolDefinition: a.plan.Binding.ToolDefinitionDigest,
		Subject: a.plan.Subject, CallDigest: a.digest, Commit: a.request.Commit != nil,
		Elsewhere: a.plan.Binding.Elsewhere, ExactOnly: a.plan.ExactOnly != "",
	})
	return policyGrants(list, a.LiveDevice, a.request.Time), err
}

// resolve finds the answer that the verdict needs. Nobody is asked about a
// call that has no budget left.
func (a *authorization) resolve(ctx context.Context) error {
	switch {
	case a.budget.Used > a.budget.Limit, a.verdict.Effect() == policy.Deny:
		return nil
	case a.verdict.Effect() == policy.Allow && a.verdict.GrantID() == "":
		a.answer = approval.NotNeeded()
		return nil
	}
	if a.verdict.Effect() == policy.Ask && a.join() {
		return nil
	}
	ask, err := a.ask()
	if err != nil {
		return err
	}
	if a.verdict.Effect() == policy.Allow {
		a.answer, err = a.Approver.GrantAnswer(ctx, a.verdict.GrantID(), *ask)
		return err
	}
	return a.askPeople(ctx, ask)
}

// askPeople waits for their answer.
func (a *authorization) askPeople(ctx context.Context, ask *approval.Ask) error {
	// What led to the ask is durable before anyone is asked.
	if err := a.flush(ctx); err != nil {
		return err
	}
	resolved, err := a.resolved(ctx)
	if err != nil {
		return err
	}
	ask.Resolved = resolved
	var on *waiting
	leave := func() {}
	defer func() { leave() }()
	tell := a.observeAsk()
	answer, err := a.Approver.Resolve(ctx, ask, func(r *approval.Record) {
		if w := a.waitingOn(r.ID); w == nil || w != on {
			leave()
			leave = a.waits(ctx, r.ID)
			on = a.waitingOn(r.ID)
		}
		tell(r)
	})
	if err != nil {
		return err
	}
	// Its client may have left, which denies the call; the end of its credential is no
	// denial, so that a retry with another one runs.
	if why := context.Cause(ctx); !answer.Allowed() && reason.Of(why) == reason.Unauthenticated {
		return why
	}
	a.answer, a.waited = answer, true
	a.observe(Event{Resolved: &answer})
	if on == nil {
		return nil
	}
	return a.adopt(ctx, on)
}
