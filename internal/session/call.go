package session

import (
	"palyra/internal/tool"
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

// Member ties the call to its session in the store. Stored says that this was
// written.
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

// Facts are what policy reads of the session now: this call is counted, and
// what it may send itself is not.
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

// Decide judges the call by the facts of now and counts what it may do to them,
// in one step: no other call of the session is judged in between. Effects that
// are nil count nothing. Judge has to be quick, and must not wait for anything.
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
	// Unseen is true when nobody saw what was sent: all that could be counts.
	Unseen bool
}

// End counts the call out. Traffic is zero for a call that did not run.
func (c *Call) End(with Traffic) {
	c.s.mu.Lock()
	c.s.reserved -= c.reserved
	c.s.facts.BytesOut += Effects{MaySend: c.reserved}.Sent(with)
	c.s.facts.Tainted = c.s.facts.Tainted || with.Read
	c.reserved = 0
	c.s.mu.Unlock()
	c.book.leave(c)
}

// Budget is the place of the call among those that count against a bound, and
// the bound: of its run, or of its session, which people may have let go on.
func (c *Call) Budget(perRun, perSession int) (number, limit int) {
	if c.ofRun {
		return c.number, perRun
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.number, max(perSession, c.s.limit)
}

// Turn is the wait for the answer to whether a session may make more calls. One
// call asks, and the others that have used the budget up wait with it.
type Turn struct {
	// Answered is closed when people answered, or the call that asked gave up.
	Answered chan struct{}
	// Refused is set before, when they said no.
	Refused bool
}

// AskMore makes the call the one that asks whether its session may go on, unless
// another one does: mine is then false. The one that asks has to call Asked.
func (c *Call) AskMore() (turn *Turn, mine bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.asking != nil {
		return c.s.asking, false
	}
	c.s.asking = &Turn{Answered: make(chan struct{})}
	return c.s.asking, true
}

// Asked ends the turn.
func (c *Call) Asked(turn *Turn, refused bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.asking = nil
	turn.Refused = refused
	close(turn.Answered)
}

// More is the bound under which the session could make that many calls beside
// those that it has made, this one included.
func (c *Call) More(calls int) int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.facts.CallsInRun + calls
}

// Allow raises the bound of the session's calls.
func (c *Call) Allow(limit int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.limit = max(c.s.limit, limit)
}
