package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// settle determines the verdict and, where required, the answer. Both are valid for the facts
// and the policy at the time when settle returns.
func (a *authorization) settle(ctx context.Context) error {
	if err := a.evaluate(ctx); err != nil {
		return err
	}
	if err := a.conflictError(); err != nil {
		return err
	}
	if a.sub.PriorAnswer == nil { // its answer may replace an approval request
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
		return reason.Errorf(reason.Cancelled, "the caller disconnected before the call was decided: %w", ctx.Err())
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

// grants returns the standing grants that match the call. Grants never cover secrets or edited
// calls.
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

// resolve finds the answer that the verdict needs. No approval is requested for a call without
// remaining budget.
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

// askPeople requests an approval and waits for the answer.
func (a *authorization) askPeople(ctx context.Context, ask *approval.Ask) error {
	// The events that led to the approval request are durable before it is made.
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
	// The client may have disconnected, which denies the call. An expired credential is not a
	// denial, so a retry with another credential runs.
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

// resolved returns the digest of the effect of the call, of its changes, or of the use of a
// secret by its program. Denials are remembered under it.
func (a *authorization) resolved(ctx context.Context) (string, error) {
	what := a
	if a.ran != nil {
		what = a.ran
	}
	r, err := a.Dispatcher.Resolved(ctx, what.proposal, what.plan)
	if commit := a.request.Commit; commit != nil {
		places := r.Places
		if err != nil { // the program ran; its caller's state may be gone
			places = []string{commit.Workspace}
		}
		return tool.Resolved{Act: "commit", Places: places, What: map[string]any{"root": commit.Root}}.Digest()
	}
	if err != nil {
		return "", err
	}
	call, err := r.Digest()
	if injection := a.request.Injection; err == nil && injection != nil {
		return tool.Resolved{Act: "inject", Places: r.Places, What: map[string]any{"secret": injection, "call": call}}.Digest()
	}
	return call, err
}

// reasonGiven returns an error if the policies require a reason from the requester
// (@ask_reason) and the call has none: then no approval is requested.
func (a *authorization) reasonGiven() error {
	question := a.verdict.AskReason()
	if question == "" || a.request.RequesterReason != "" {
		return nil
	}
	err := reason.Errorf(reason.RequestReasonNeeded, "policy requires a reason from the requester before approvers are asked: %s", question).WithField("question", question)
	if a.sub.ReasonBy != "" {
		err = err.WithRemedy("%s", a.sub.ReasonBy)
	}
	return err
}
