package approval

// IgnoreCallDigest disables the check that binds an approval to its call, for negative
// controls. Any call of the same caller and session then counts as identical.
func (d *Desk) IgnoreCallDigest() {
	d.key = func(a Ask) callKey {
		k := keyOf(a)
		k.callDigest = "any"
		return k
	}
	for _, e := range d.open {
		k := e.key
		k.callDigest = "any"
		d.byCall[k] = append(d.byCall[k], e)
	}
}

// Held returns how many records, runs, cooled asks and grants are in memory.
func (d *Desk) Held() (open, runs, cooled, grants int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) + len(d.byCall), len(d.quota.created) + len(d.quota.perPrincipal) + len(d.quota.perRun) + len(d.quota.principal),
		len(d.cool.asks), len(d.grants.byID) + len(d.grants.seen) + len(d.grants.byOwner) + len(d.due.byID)
}

// Transition is transition, and Step is its argument.
var Transition = transition

// Step is one transition of a record.
type Step = step

// NewStep returns a step without events.
func NewStep(id string, from State, version int64, to State) Step {
	return Step{id: id, from: from, version: version, to: to, actor: "user:test", events: stateEvents("PAL-A105", from)}
}
