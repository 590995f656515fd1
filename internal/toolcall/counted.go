package toolcall

import (
	"context"

	"palyra/internal/callrecord"
	"palyra/internal/decision"
	"palyra/internal/session"
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
func (c *call) takeBudget() {
	used, limit := c.counted.Budget(min(c.sub.MaxCalls, c.MaxCallsPerRun), c.MaxCallsPerSession)
	c.budget = decision.Budget{Limit: limit, Used: used}
	if c.sub.MaxCalls == 0 {
		c.budget.Session = c.counted.Session()
	}
}

// end counts the call out.
func (c *call) end() { c.counted.End(c.exchanged) }

// sessionID is the session that the gateway counts the call in; "" for a dry
// run.
func (c *call) sessionID() string {
	if c.counted == nil {
		return ""
	}
	return c.counted.Session()
}

// effects are what the call may do to the facts of its session when it runs.
func (c *call) effects() *session.Effects {
	e := callrecord.EffectsOf(c.proposal.Tool.Name, c.proposal.Tool.OpenWorld, c.plan.Facts, c.plan.MaySend)
	return &e
}
