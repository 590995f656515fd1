package call

import (
	"context"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
)

// begin counts the call in its session, and in the run of the gateway that it
// is of.
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

// takeBudget looks up what the call may count against.
func (a *authorization) takeBudget() {
	used, limit := a.counted.Budget(min(a.sub.MaxCalls, a.MaxCallsPerRun), a.MaxCallsPerSession)
	a.budget = decision.Budget{Limit: limit, Used: used}
	if a.sub.MaxCalls == 0 {
		a.budget.Session = a.counted.Session()
	}
}

// end counts the call out.
func (c *call) end() { c.counted.End(c.exchanged) }

// sessionID is the session that the gateway counts the call in; "" for a dry
// run.
func (a *authorization) sessionID() string {
	if a.counted == nil {
		return ""
	}
	return a.counted.Session()
}

// effects are what the call may do to the facts of its session when it runs.
func (a *authorization) effects() *session.Effects {
	e := record.EffectsOf(a.proposal.Tool.Name, a.proposal.Tool.OpenWorld, a.plan.Facts, a.plan.MaySend)
	return &e
}
