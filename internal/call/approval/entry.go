package approval

import (
	"slices"
	"sync"
	"time"
)

// entry is a pending or allowed record in memory. The desk's lock guards it.
type entry struct {
	// id never changes and may be read without the lock.
	id  string
	rec Record
	key callKey
	// resolved is that of the ask, "" for a record of before the start.
	resolved string
	// calls are the calls that edits put in the place of the first, by call digest: also
	// one whose edit is not stored yet, or never is. before are the resolved of those
	// that were asked about before.
	calls  map[string]editedCall
	before []string
	run    runKey
	// ready is closed when the record is stored, or creating it failed.
	ready chan struct{}
	// waiters are in the order in which they came.
	waiters []*waiter
	// delivered is closed once a waiting call has received the record or has left. It is
	// closed from the start for records loaded from the store, which have no waiting call.
	delivered   chan struct{}
	deliverOnce sync.Once
	// counted is true while the record counts as pending.
	counted bool
	// leaving is true once the last waiter left: nobody may join any more.
	leaving bool
	// claimedUntil is until when the answer of an allowed record is kept for
	// the call that received it.
	claimedUntil time.Time
}

// markDelivered closes delivered; later calls have no effect.
func (e *entry) markDelivered() {
	e.deliverOnce.Do(func() { close(e.delivered) })
}

// editedCall is a call that an edit made.
type editedCall struct {
	input    []byte
	resolved string
}

// waiter is one call that waits on a record. The desk's lock guards it.
type waiter struct {
	wake chan struct{}
	// rec is the record as it is now, nil with an err. Nobody changes it.
	rec *Record
	// fresh is true when rec was not shown to the observer yet.
	fresh bool
	// done is true when there is nothing more to wait for; served when this
	// call received the answer of an allowed record.
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

// removeLocked forgets an entry that is settled for good, or never came to be.
func (d *Desk) removeLocked(e *entry) {
	delete(d.open, e.id)
	d.unkeyLocked(e)
	d.uncountLocked(e)
	d.due.remove(e.id)
}

// unkeyLocked takes an entry from those of its call.
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

// settle brings memory up to a record that has become durable, and wakes who
// waits for it. Records may come out of order; an older one changes nothing.
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
		shown := d.shownLocked(e)
		for _, w := range e.waiters {
			w.show(shown)
		}
	case rec.State == Allowed:
		d.allowLocked(e)
	default:
		d.closeLocked(e, was)
	}
}

// allowLocked serves the call that waited longest; the others ask again.
func (d *Desk) allowLocked(e *entry) {
	shown := e.rec
	d.uncountLocked(e)
	d.schedule(e.rec.ID, false, e.rec.deadline())
	for i, w := range e.waiters {
		w.finish(&shown, i == 0, nil)
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
	shown := e.rec
	for _, w := range e.waiters {
		w.finish(&shown, false, nil)
	}
	e.waiters = nil
	d.removeLocked(e)
}

func (d *Desk) shownLocked(e *entry) *Record {
	rec := e.rec
	rec.Waiters = len(e.waiters)
	return &rec
}
