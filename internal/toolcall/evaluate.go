package toolcall

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

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
	c := &call{Pipeline: p, sub: s, observe: func(Event) {}}
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return Evaluation{}, err
	}
	id := ulid.Make().String()
	c.proposedAt = time.Now().UTC()
	c.proposal = tool.Proposal{
		ID: id, Caller: s.Caller, Session: SessionID(s.Caller, s.Session), Run: id, Channel: s.Channel,
		Tool: descriptor, Input: input,
	}
	if err := c.planCall(ctx, tool.SessionFacts{CallsInRun: 1}); err != nil {
		return Evaluation{}, err
	}
	if err := c.evaluate(ctx); err != nil {
		return Evaluation{}, err
	}
	return Evaluation{Verdict: c.verdict, CallDigest: c.digest, Plan: c.plan}, nil
}
