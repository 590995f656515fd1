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
	c.counted, c.drafts.stored = counted, counted.Stored
	member := counted.Member(c.ids.ID)
	c.drafts.Member = &member
	return nil
}

// budget returns the budget that the call counts against.
func (s *scope) budget() decision.Budget {
	used, limit := s.counted.Budget(min(s.sub.MaxCalls, s.MaxCallsPerRun), s.MaxCallsPerSession)
	b := decision.Budget{Limit: limit, Used: used}
	if s.sub.MaxCalls == 0 {
		b.Session = s.counted.Session()
	}
	return b
}

// sessionID returns the session that counts the call, or "" for a dry run.
func (s *scope) sessionID() string {
	if s.counted == nil {
		return ""
	}
	return s.counted.Session()
}

// effects returns the changes that the call may make to its session's facts when it runs.
func (q *question) effects() *session.Effects {
	e := record.EffectsOf(q.proposal.Tool.Name, q.proposal.Tool.OpenWorld, q.plan.Facts, q.plan.MaySend)
	return &e
}

// Quota bounds the bytes that callers send and store.
type Quota interface {
	// Begin counts n bytes of input until end is called, or refuses them with QUOTA_EXCEEDED.
	// It counts its own refusals.
	Begin(c access.Caller, p access.Precedence, n int64) (end func(), err error)
}

// bring counts the input of a submission.
func (p *services) bring(s *Submission) (end func(), err error) {
	if p.Quota == nil {
		return func() {}, nil
	}
	return p.Quota.Begin(s.Caller, s.Precedence, int64(len(s.Input)))
}

// pastSessions computes the state of past sessions from the ledger.
type pastSessions struct{ Ledger }

// NewestSession implements session.Store.
func (s pastSessions) NewestSession(ctx context.Context, k session.Key) (session.Past, bool, error) {
	var facts record.Facts
	past, found, err := s.Ledger.NewestSession(ctx, k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}
