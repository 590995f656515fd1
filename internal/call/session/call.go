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
	// number is the place of the call in its run, or among the calls of its
	// session that are of no run.
	number int
	// reserved is what the call may still send, once it was let through.
	reserved int64
}

// Session is the id of the call's session.
func (c *Call) Session() string { return c.s.row.ID }

// Member is the row that ties the call to its session. The caller stores it, and
// then calls Stored.
func (c *Call) Member(proposal string) Member {
	m := Member{Session: c.s.row.ID, Proposal: proposal, OfRun: c.ofRun}
	if !c.s.stored.Load() {
		row := c.s.row
		m.New = &row
	}
	return m
}

// Stored notes that the session is durable.
func (c *Call) Stored() { c.s.stored.Store(true) }

// Facts are what policy reads of the session now. They count this call, but not the
// bytes that are reserved for it.
func (c *Call) Facts() tool.SessionFacts {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.facts()
}

// facts is called under the lock.
func (c *Call) facts() tool.SessionFacts {
	f := c.s.copied()
	f.CallsInRun = c.number
	f.BytesOut += c.s.reserved - c.reserved
	return f
}

// Decide calls judge with the facts of now and counts the effects that it returns,
// all under the session's lock: no other call of the session is judged in between.
// nil effects count nothing. judge has to be quick and must not wait for anything.
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

// Traffic is what a call exchanged with the world outside.
type Traffic struct {
	Sent int64
	// Read is true when something came in, or may have.
	Read bool
	// Unseen is true when nobody counted what was sent: then all that was reserved
	// counts as sent.
	Unseen bool
}

// End counts the call out. with is zero for a call that did not run.
func (c *Call) End(with Traffic) {
	c.s.mu.Lock()
	c.s.reserved -= c.reserved
	c.s.facts.BytesOut += Effects{MaySend: c.reserved}.Sent(with)
	c.s.facts.Tainted = c.s.facts.Tainted || with.Read
	c.reserved = 0
	c.s.mu.Unlock()
	c.book.leave(c)
}

// Budget returns the call's number in its run or session, from 1, and how many
// calls that may make: perRun, or perSession unless people allowed more (Allow).
func (c *Call) Budget(perRun, perSession int) (number, limit int) {
	if c.ofRun {
		return c.number, perRun
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.number, max(perSession, c.s.limit)
}

// Turn is one question to people whether a session may make more calls. One call
// asks it; others that are beyond the budget meanwhile wait for the same answer.
type Turn struct {
	// Asked is closed when people are asked, which may be never.
	Asked chan struct{}
	// Question is what they are asked, for those who wait with the call that asks. It is set
	// before Asked is closed.
	Question any
	// Answered is closed when people have answered, or the call that asked has
	// given up.
	Answered chan struct{}
	// Refused is true when they said no, and Said is what they said with it, "" for nothing. Both are
	// set before Answered is closed.
	Refused bool
	Said    string
}

// AskMore begins a Turn, which this call has to end with Asked. When another call
// of the session is asking already, it returns that call's Turn, and mine is false.
func (c *Call) AskMore() (turn *Turn, mine bool) {
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

// More is the limit for Allow that lets the session make that many calls beside
// those that it has made. This call counts among those made.
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
