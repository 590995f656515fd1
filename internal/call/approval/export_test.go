package approval

import "palyra/internal/call/approval/internal/deadline"

// IgnoreCallDigest disables the check that binds an approval to its call, for negative
// controls. Any call of the same caller and session then counts as identical.
func (d *Desk) IgnoreCallDigest() {
	m, _ := d.open.(*requestsInMemory)
	m.key = func(a Ask) callKey {
		k := keyOf(a)
		k.callDigest = "any"
		return k
	}
	for _, e := range m.byID {
		k := e.key
		k.callDigest = "any"
		m.byCall[k] = append(m.byCall[k], e)
	}
}

// Held returns how many records, runs, cooled asks and grants are in memory.
func (d *Desk) Held() (open, runs, cooled, grants int) {
	m, g := d.open.(*requestsInMemory), d.Grants
	m.mu.Lock()
	defer m.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, due := range []*deadline.Queue{m.due, g.due} {
		if !due.Next().IsZero() {
			grants++
		}
	}
	return len(m.byID) + len(m.byCall), len(m.quota.created) + len(m.quota.perPrincipal) + len(m.quota.perRun) + len(m.quota.principal),
		len(m.cool.asks), grants + len(g.book.byID) + len(g.book.seen) + len(g.book.byOwner)
}

// Transition is transition, and Step is its argument.
var Transition = transition

// Step is one transition of a record.
type Step = step

// NewStep returns a step without events.
func NewStep(id string, from State, version int64, to State) Step {
	return Step{id: id, from: from, version: version, to: to, actor: "user:test", events: stateEvents("PAL-A105", from)}
}
