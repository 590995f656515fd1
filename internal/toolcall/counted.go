package toolcall

import (
	"context"
	"slices"

	"palyra/internal/decision"
	"palyra/internal/session"
	"palyra/internal/tool"
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
// Nobody sees what a program reads from a network that is open; it may.
func (c *call) effects() *session.Effects {
	return &session.Effects{
		Tool: c.proposal.Tool.Name, Secrets: c.plan.Facts.Secrets, MaySend: c.plan.MaySend,
		Taints: c.proposal.Tool.OpenWorld || slices.Contains(Unseen, c.plan.Facts.EgressMode),
	}
}

// Unseen are the egress modes, of plans and of evidence, in which nobody sees
// what a program exchanges. The evidence calls "none" unrestricted.
var Unseen = []string{"preflight", "none", "unrestricted"}

// exchanged is what the evidence says.
func exchanged(e tool.Egress) session.Traffic {
	unseen := slices.Contains(Unseen, e.Mode)
	t := session.Traffic{Read: unseen, Unseen: unseen}
	for _, c := range e.Observed {
		t.Sent += c.BytesOut
		t.Read = t.Read || c.BytesIn > 0
	}
	return t
}
