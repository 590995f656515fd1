package call

import (
	"cmp"
	"context"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Evaluation is the policy verdict on a call that is not made.
type Evaluation struct {
	Verdict policy.Verdict
	// CallDigest and Plan.Subject are empty if the caller may not read the files of the call.
	CallDigest string
	Plan       tool.Plan
	// Secrets are the verdicts on the secrets of the call's program; empty if the call itself
	// is denied.
	Secrets []SecretEvaluation
	// ReasonWanted is the reason that policy requires from the requester before approvers are
	// asked about the call or one of its secrets; "" if none is required or one was given.
	ReasonWanted string
	// Frozen is true while the gateway is frozen and would refuse the call.
	Frozen bool
}

// SecretEvaluation is the policy verdict on one secret of a call.
type SecretEvaluation struct {
	Injection tool.Injection
	Verdict   policy.Verdict
}

// Evaluate is a dry run: it checks, plans and evaluates the call. It does not count the call,
// request an approval or run a tool. The files that it read are reported to Config.Looked.
// CallDigest is empty for callers that may not read the files of the call: the digest covers
// file content and would confirm a guess of it.
func (p *Pipeline) Evaluate(ctx context.Context, s Submission) (Evaluation, error) {
	c, e, err := p.weigh(ctx, s, false)
	if c != nil {
		c.look(access.Principal{})
	}
	if err == nil && c.restricted(ctx) {
		e.CallDigest, e.Plan.Subject = "", ""
	}
	return e, err
}

// weigh checks, plans and evaluates a call that is not made, and also returns the call. The
// call is nil if it was not planned. elsewhere is true for a call that another gateway runs.
func (p *Pipeline) weigh(ctx context.Context, s Submission, elsewhere bool) (*call, Evaluation, error) {
	s.Run = ""
	c := newCall(p, &s, nil, func(Event) {})
	c.elsewhere = elsewhere
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return nil, Evaluation{}, err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	if c.reason, err = requesterReason(s.Reason); err != nil {
		return nil, Evaluation{}, err
	}
	if err := c.planCall(ctx, tool.SessionFacts{CallsInRun: 1}); err != nil {
		return c, Evaluation{}, err
	}
	if err := c.evaluate(ctx); err != nil {
		return c, Evaluation{}, err
	}
	if err := c.conflictError(); err != nil {
		return c, Evaluation{}, err
	}
	secrets, err := c.evaluateInjections(ctx)
	e := Evaluation{Verdict: c.verdict, CallDigest: c.digest, Plan: c.plan, Secrets: secrets, Frozen: c.Dispatcher.Frozen()}
	if c.reason == "" {
		e.ReasonWanted = c.verdict.AskReason()
		for _, one := range secrets {
			e.ReasonWanted = cmp.Or(e.ReasonWanted, one.Verdict.AskReason())
		}
	}
	return c, e, err
}

func (a *authorization) evaluateInjections(ctx context.Context) ([]SecretEvaluation, error) {
	if a.verdict.Effect() == policy.Deny {
		return nil, nil
	}
	var list []SecretEvaluation
	for _, i := range a.plan.Injections {
		one, err := a.injection(i, a.request.SessionFacts)
		if err != nil {
			return nil, err
		}
		if err := one.evaluate(ctx); err != nil {
			return nil, err
		}
		list = append(list, SecretEvaluation{i, one.verdict})
	}
	return list, nil
}
