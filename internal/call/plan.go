package call

import (
	"context"
	"errors"
	"slices"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
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
