package toolcall

import (
	"context"

	"palyra/internal/policy"
	"palyra/internal/tool"
)

// Evaluation is what policy would say of a call.
type Evaluation struct {
	Verdict    policy.Verdict
	CallDigest string
	Plan       tool.Plan
}

// Evaluate is a dry run: the call is checked, planned and evaluated. Nothing
// is counted or journaled, nobody is asked, nothing runs.
func (p *Pipeline) Evaluate(ctx context.Context, s Submission) (Evaluation, error) {
	s.Run = ""
	c := newCall(p, &s, nil, func(Event) {})
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return Evaluation{}, err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	if err := c.planCall(ctx, tool.SessionFacts{CallsInRun: 1}); err != nil {
		return Evaluation{}, err
	}
	if err := c.evaluate(ctx); err != nil {
		return Evaluation{}, err
	}
	return Evaluation{Verdict: c.verdict, CallDigest: c.digest, Plan: c.plan}, nil
}
