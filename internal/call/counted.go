package call

import (
	"context"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
)

// begin counts the call in its session and, if it belongs to one, in its gateway run.
func (c *call) begin(ctx context.Context) error {
	run := ""
	if c.sub.MaxCalls > 0 {
		run = c.sub.Run
	}
	counted, err := c.sessions.Begin(ctx, c.sub.Caller, run)
	if err != nil {
		return err
	}
	c.counted = counted
	member := counted.Member(c.proposal.ID)
	c.pending.Member = &member
	c.takeBudget()
	return nil
}

// takeBudget sets the budget that the call counts against.
func (a *authorization) takeBudget() {
	used, limit := a.counted.Budget(min(a.sub.MaxCalls, a.MaxCallsPerRun), a.MaxCallsPerSession)
	a.budget = decision.Budget{Limit: limit, Used: used}
	if a.sub.MaxCalls == 0 {
		a.budget.Session = a.counted.Session()
	}
}

// end removes the call from the calls under way of its session.
func (c *call) end() { c.counted.End(c.exchanged) }

// sessionID returns the session that counts the call, or "" for a dry run.
func (a *authorization) sessionID() string {
	if a.counted == nil {
		return ""
	}
	return a.counted.Session()
}

// effects returns the changes that the call may make to its session's facts when it runs.
func (a *authorization) effects() *session.Effects {
	e := record.EffectsOf(a.proposal.Tool.Name, a.proposal.Tool.OpenWorld, a.plan.Facts, a.plan.MaySend)
	return &e
}

// Quota bounds the bytes that callers send and store.
type Quota interface {
	// Begin counts n bytes of input until end is called, or refuses them with QUOTA_EXCEEDED.
	// It counts its own refusals.
	Begin(c access.Caller, p access.Precedence, n int64) (end func(), err error)
}

// bring counts the input of a submission.
func (p *Pipeline) bring(s *Submission) (end func(), err error) {
	if p.Quota == nil {
		return func() {}, nil
	}
	return p.Quota.Begin(s.Caller, s.Precedence, int64(len(s.Input)))
}
