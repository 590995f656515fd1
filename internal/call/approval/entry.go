package approval

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// entry is a pending or allowed record in memory. The desk's lock guards it.
type entry struct {
	// id never changes and may be read without the lock.
	id  string
	rec Record
	key callKey
	// resolved is Ask.Resolved, or "" for a record loaded at start.
	resolved string
	// calls are the edited versions of the call, by call digest, including an edit that is not yet
	// stored or could not be stored. before are the Resolved values of earlier versions.
	calls  map[string]editedCall
	before []string
	run    runKey
	// ready is closed when the record is stored, or its creation failed.
	ready chan struct{}
	// waiters are in the order of their arrival.
	waiters []*waiter
	// delivered is closed once a waiting call has received the record or has left. It is
	// closed from the start for records loaded from the store, which have no waiting call.
	delivered   chan struct{}
	deliverOnce sync.Once
	// counted is true while the record counts as pending.
	counted bool
	// leaving is true once the last waiter left: no call may join any more.
	leaving bool
	// claimedUntil is the time until which the answer of an allowed record is reserved for the
	// call that received it.
	claimedUntil time.Time
}

// markDelivered closes delivered; later calls have no effect.
func (e *entry) markDelivered() {
	e.deliverOnce.Do(func() { close(e.delivered) })
}

// editedCall is an edited version of a call.
type editedCall struct {
	input    []byte
	resolved string
}

// waiter is one call that waits on a record. The desk's lock guards it.
type waiter struct {
	wake chan struct{}
	// rec is the current record, nil with an err. It must not be modified.
	rec *Record
	// fresh is true if rec was not passed to the observer yet.
	fresh bool
	// done is true if the wait is over; served if this call received the answer of an allowed
	// record.
	done, served bool
	err          error
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiter) show(rec *Record) {
	w.rec, w.fresh = rec, true
	w.notify()
}

func (w *waiter) finish(rec *Record, served bool, err error) {
	w.done, w.served, w.err = true, served, err
	w.show(rec)
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (d *Desk) addLocked(e *entry) {
	d.open[e.id] = e
	d.byCall[e.key] = append(d.byCall[e.key], e)
}

// removeLocked removes an entry that is settled, or that was never stored.
func (d *Desk) removeLocked(e *entry) {
	delete(d.open, e.id)
	d.unkeyLocked(e)
	d.uncountLocked(e)
	d.due.remove(e.id)
}

// unkeyLocked removes an entry from the entries of its call.
func (d *Desk) unkeyLocked(e *entry) {
	rest := slices.DeleteFunc(d.byCall[e.key], func(other *entry) bool { return other == e })
	if len(rest) == 0 {
		delete(d.byCall, e.key)
	} else {
		d.byCall[e.key] = rest
	}
}

func (d *Desk) uncountLocked(e *entry) {
	if e.counted {
		e.counted = false
		d.quota.drop(e.run)
	}
}

// settle updates the memory to a record that has become durable, and wakes its waiters. Records
// may come out of order; an older one changes nothing.
func (d *Desk) settle(rec Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announceLocked()
	e, ok := d.open[rec.ID]
	if !ok || rec.Version <= e.rec.Version {
		return
	}
	was := e.rec.State
	rec.Request = nil // the store has it for the Judge
	if rec.CallDigest != e.rec.CallDigest && e.rec.CallDigest != "" {
		d.rekeyLocked(e, rec)
	}
	rec.Input = e.calls[rec.CallDigest].input
	e.rec = rec
	switch {
	case rec.State == Pending:
		d.schedule(rec.ID, false, rec.deadline())
		displayed := d.displayedLocked(e)
		for _, w := range e.waiters {
			w.show(displayed)
		}
	case rec.State == Allowed:
		d.allowLocked(e)
	default:
		d.closeLocked(e, was)
	}
}

// allowLocked serves the call that waited longest; the others ask again.
func (d *Desk) allowLocked(e *entry) {
	displayed := e.rec
	d.uncountLocked(e)
	d.schedule(e.rec.ID, false, e.rec.deadline())
	for i, w := range e.waiters {
		w.finish(&displayed, i == 0, nil)
	}
	if len(e.waiters) > 0 {
		e.claimedUntil = d.now().Add(d.limits.Claim)
	}
	e.waiters = nil
}

func (d *Desk) closeLocked(e *entry, was State) {
	if was != Allowed && (e.rec.State == Denied || e.rec.State == Expired) {
		for _, what := range append(e.before, e.resolved) {
			d.cool.remember(e.rec, what)
		}
	}
	displayed := e.rec
	for _, w := range e.waiters {
		w.finish(&displayed, false, nil)
	}
	e.waiters = nil
	d.removeLocked(e)
}

func (d *Desk) displayedLocked(e *entry) *Record {
	rec := e.rec
	rec.Waiters = len(e.waiters)
	return &rec
}

func (d *Desk) announceLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// now returns the time in UTC, truncated to microseconds as in a store.
func (d *Desk) now() time.Time { return d.clock().UTC().Truncate(time.Microsecond) }

// update runs one unit to its end independently of the caller's context: the desk needs the
// outcome of every unit that it started.
func (d *Desk) update(ctx context.Context, fn func(Tx) error) error {
	return d.store.Update(context.WithoutCancel(ctx), fn)
}

// schedule sets a deadline and wakes Run if it is now the first. The caller holds the lock.
func (d *Desk) schedule(id string, grant bool, at time.Time) {
	if d.due.set(id, grant, at) {
		select {
		case d.kick <- struct{}{}:
		default:
		}
	}
}

func newID(at time.Time) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// rekeyLocked moves the entry of an edited record to the key of the new call. Calls that are
// identical to the previous version then need their own record.
func (d *Desk) rekeyLocked(e *entry, rec Record) {
	d.unkeyLocked(e)
	e.key = keyOfRecord(rec)
	d.byCall[e.key] = append(d.byCall[e.key], e)
	e.before, e.resolved = append(e.before, e.resolved), e.calls[rec.CallDigest].resolved
}
