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

// evaluated is a question with its verdict.
type evaluated struct {
	*question
	verdict policy.Verdict
}

// evaluate gets the verdict, and drafts it.
func (q *question) evaluate(ctx context.Context) (evaluated, error) {
	grants, err := q.grants(ctx)
	if err != nil {
		return evaluated{}, err
	}
	verdict, err := q.Evaluator.Evaluate(ctx, q.request, grants)
	switch {
	case err != nil && ctx.Err() != nil:
		return evaluated{}, reason.Errorf(reason.Cancelled, "the caller disconnected before the call was decided: %w", ctx.Err())
	case err != nil:
		return evaluated{}, reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	e := evaluated{q, verdict}
	return e, e.draftVerdict()
}

func (e *evaluated) draftVerdict() error {
	request := e.request
	request.Args = nil
	return e.drafts.draftRedacted(event.Evaluated, record.Evaluated{
		ProposalID: e.proposal.ID, CallDigest: e.digest, Verdict: record.VerdictOf(e.verdict), Request: request, MaySend: e.plan.MaySend,
	})
}

// grants returns the standing grants that match the call. Grants never cover secrets or edited
// calls.
func (q *question) grants(ctx context.Context) ([]policy.Grant, error) {
	if q.request.Injection != nil || len(q.edits) > 0 {
		return nil, nil
	}
	list, err := q.Grants.Find(ctx, approval.GrantQuery{
		Principal: q.sub.Caller.Principal, OnBehalfOf: q.sub.Caller.OnBehalfOf, Session: q.proposal.Session,
		Tool: q.proposal.Tool.Name, ToolDefinition: q.plan.Binding.ToolDefinitionDigest,
		Subject: q.plan.Subject, CallDigest: q.digest, Commit: q.request.Commit != nil,
		Elsewhere: q.plan.Binding.Elsewhere, ExactOnly: q.plan.ExactOnly != "",
	})
	return policyGrants(list, q.LiveDevice, q.request.Time), err
}

// conflictError returns the reason why a call that policy does not deny cannot be made, with
// the details that its caller may read.
func (e *evaluated) conflictError() error {
	if e.conflict == nil || e.verdict.Effect() == policy.Deny {
		return nil
	}
	return tool.Disclose(e.conflict, e.mayDisclose)
}

// reasonGiven returns an error if the policies require a reason from the requester
// (@ask_reason) and the call has none: then no approval is requested.
func (e *evaluated) reasonGiven() error {
	question := e.verdict.AskReason()
	if question == "" || e.request.RequesterReason != "" {
		return nil
	}
	err := reason.Errorf(reason.RequestReasonNeeded, "policy requires a reason from the requester before approvers are asked: %s", question).WithField("question", question)
	if e.sub.ReasonBy != "" {
		err = err.WithRemedy("%s", e.sub.ReasonBy)
	}
	return err
}
