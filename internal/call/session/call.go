package session

import (
	"palyra/internal/core/tool"
)

// Call is a call that is counted in its session.
type Call struct {
	book *Book
	s    *session
	key  Key
	// ofRun is true for a call of the gateway's run of that name.
	ofRun bool
	run   string
	// number is the index of the call in its run, or among the calls of its session outside of
	// runs, from 1.
	number int
	// reserved is the number of bytes that an allowed call may still send.
	reserved int64
}

// Session is the id of the call's session.
func (c *Call) Session() string { return c.s.row.ID }

// Member returns the row that adds the call to its session. The caller stores it, and then
// calls Stored.
func (c *Call) Member(proposal string) Member {
	m := Member{Session: c.s.row.ID, Proposal: proposal, OfRun: c.ofRun}
	if !c.s.stored.Load() {
		row := c.s.row
		m.New = &row
	}
	return m
}

// Stored records that the session is durable.
func (c *Call) Stored() { c.s.stored.Store(true) }

// Facts returns the current session facts that policy reads. They count this call, but not the
// bytes reserved for it.
func (c *Call) Facts() tool.SessionFacts {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.facts()
}

// facts must be called under the lock.
func (c *Call) facts() tool.SessionFacts {
	f := c.s.copied()
	f.CallsInRun = c.number
	f.BytesOut += c.s.reserved - c.reserved
	return f
}

// Decide calls judge with the current facts and counts the returned effects, both under the
// session's lock. No other call of the session is judged in between. If the effects are nil,
// Decide counts nothing. judge must be quick and must not block.
func (c *Call) Decide(judge func(now tool.SessionFacts) (*Effects, error)) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	effects, err := judge(c.facts())
	if err != nil || effects == nil {
		return err
	}
	effects.Begin(&c.s.facts)
	c.s.reserved += effects.MaySend
	c.reserved = effects.MaySend
	return nil
}

// Traffic is the external traffic of a call.
type Traffic struct {
	Sent int64
	// Read is true if data was, or may have been, received.
	Read bool
	// Unseen is true if the sent bytes were not counted: then all reserved bytes count as sent.
	Unseen bool
}

// End removes the call from the calls under way. with is zero for a call that did not run.
func (c *Call) End(with Traffic) {
	c.s.mu.Lock()
	c.s.reserved -= c.reserved
	c.s.facts.BytesOut += Effects{MaySend: c.reserved}.Sent(with)
	c.s.facts.Tainted = c.s.facts.Tainted || with.Read
	c.reserved = 0
	c.s.mu.Unlock()
	c.book.leave(c)
}

// Budget returns the call's number in its run or session, from 1, and the maximum: perRun, or
// perSession unless it was extended (Allow).
func (c *Call) Budget(perRun, perSession int) (number, limit int) {
	if c.ofRun {
		return c.number, perRun
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.number, max(perSession, c.s.limit)
}

// Turn is one request to extend a session. One call makes it; other calls beyond the budget
// wait for the same answer.
type Turn struct {
	// Asked is closed when approvers are asked, which may never happen.
	Asked chan struct{}
	// Question is the approval request, for the waiting calls. It is set before Asked is
	// closed.
	Question any
	// Answered is closed when the request is answered, or the asking call has given up.
	Answered chan struct{}
	// Refused is true after a denial, and Said is its reason, or "". Both are set before
	// Answered is closed.
	Refused bool
	Said    string
}

// AskMore begins a Turn, which this call must end with Asked. If another call of the session is
// already asking, AskMore returns the Turn of that call, and created is false.
func (c *Call) AskMore() (turn *Turn, created bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.asking != nil {
		return c.s.asking, false
	}
	c.s.asking = &Turn{Asked: make(chan struct{}), Answered: make(chan struct{})}
	return c.s.asking, true
}

// Asked ends the turn.
func (c *Call) Asked(turn *Turn, refused bool, said string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.asking = nil
	turn.Refused, turn.Said = refused, said
	close(turn.Answered)
}

// More returns the limit for Allow that permits that many calls in addition to those already
// made, including this one.
func (c *Call) More(calls int) int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.facts.CallsInRun + calls
}

// Allow raises the session's limit of calls.
func (c *Call) Allow(limit int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.limit = max(c.s.limit, limit)
}
