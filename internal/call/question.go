package call

import (
	"context"
	"errors"
	"slices"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// question is what policy judges, and people where policy requires it: a call, the changes of a
// call, or the use of a secret by its program. A question MUST NOT change after the function that
// built it returned: a later version, for example with current facts, is a new question.
type question struct {
	*scope
	proposed *proposed
	// ofCall is the question about the call whose changes or secret this one is about, nil for a
	// call.
	ofCall   *question
	proposal tool.Proposal
	plan     tool.Plan
	// conflict is set if the content of files prevents the call. It is returned only if policy
	// does not deny the call.
	conflict *tool.RestrictedError
	digest   string
	request  policy.Request
	// argumentsDigest is the digest of the input in the evidence.
	argumentsDigest string
	// edited and edits describe how people changed the call; both are nil for an unedited call.
	edited *tool.Edited
	edits  []approval.Edit
	// subjectType and subjectID identify the subject of the approval; both are "" for the call
	// itself.
	subjectType approval.SubjectType
	subjectID   string
}

// plan determines the effects of the call, as facts for policy. With an error, the question has
// the files that planning read.
func (c *call) plan(ctx context.Context, p *proposed, session tool.SessionFacts) (*question, error) {
	q := &question{scope: &c.scope, proposed: p, proposal: p.proposal, argumentsDigest: p.argumentsDigest}
	var err error
	if q.plan, err = c.Dispatcher.Plan(ctx, q.proposal); errors.As(err, &q.conflict) {
		q.plan, err = q.conflict.Plan, nil
	}
	if err != nil {
		return q, err
	}
	if c.elsewhere {
		q.plan.RunElsewhere()
	}
	if q.digest, err = q.plan.Binding.Digest(); err != nil {
		return q, err
	}
	q.request = c.policyRequest(p, &q.plan, session)
	return q, nil
}

// capabilities returns the capabilities that a call of a tool requests.
func capabilities(d *tool.Descriptor, facts *tool.Facts) []tool.Capability {
	if len(facts.Secrets) > 0 && !slices.Contains(d.Capabilities, tool.SecretsRead) {
		return append(slices.Clone(d.Capabilities), tool.SecretsRead)
	}
	return d.Capabilities
}

// policyRequest returns the planned call as a policy request.
func (c *call) policyRequest(p *proposed, plan *tool.Plan, session tool.SessionFacts) policy.Request {
	return policy.Request{
		Caller:          c.sub.Caller,
		Tool:            p.proposal.Tool.Name,
		Capabilities:    capabilities(&p.proposal.Tool, &plan.Facts),
		Args:            p.proposal.Input,
		Session:         p.proposal.Session,
		Run:             p.proposal.Run,
		GatewaySession:  c.sessionID(),
		Channel:         p.proposal.Channel,
		SkillID:         p.proposal.Tool.Skill,
		RequesterReason: p.reason,
		Facts:           plan.Facts,
		SessionFacts:    session,
		Time:            c.proposedAt,
	}
}

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
	list, err := q.Grants.Find(ctx, approval.QueryOf(&q.proposal, &q.plan, q.digest, q.subjectID))
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
