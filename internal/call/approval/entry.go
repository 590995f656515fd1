package approval

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// openRequest is the part of an open request that is not stored.
type openRequest struct {
	waiters int
	// input is the input of the edited call with the digest, or nil.
	input json.RawMessage
	// delivered is closed once a waiting call has received the record.
	delivered <-chan struct{}
}

// place is the place of a call among the open requests.
type place struct {
	how entrance
	// rec is the record that answers the call, if it need not wait.
	rec *Record
	// entry and waiter are set if the call waits.
	entry  *entry
	waiter *waiter
}

// entrance is the way in which an ask was matched to a record.
type entrance int

const (
	remembered entrance = iota // answered from memory
	claimed                    // an allowed record was available
	created                    // a new record
	joined                     // an identical record is pending
)

// entry is a pending or allowed record in memory. The lock of requestsInMemory guards it.
type entry struct {
	// id never changes and may be read without the lock.
	id  string
	rec Record
	key callKey
	// resolved is Ask.Resolved, or "" for a record loaded at start.
	resolved string
	// calls are the edited versions of the call, by call digest, including an edit that is not
	// yet stored or could not be stored. before are the Resolved values of earlier versions.
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

// displayed returns the record in the form that waiting calls receive.
func (e *entry) displayed() *Record {
	rec := e.rec
	rec.Waiters = len(e.waiters)
	return &rec
}

// fail returns an error to the waiters.
func (e *entry) fail(err error) {
	for _, w := range e.waiters {
		w.finish(nil, false, err)
	}
	e.waiters = nil
}

// remove removes a waiter.
func (e *entry) remove(w *waiter) {
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
}

// editedCall is an edited version of a call.
type editedCall struct {
	input    []byte
	resolved string
}

// waiter is one call that waits on a record. The lock of requestsInMemory guards it.
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

func (w *waiter) show(rec *Record) {
	w.rec, w.fresh = rec, true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiter) finish(rec *Record, served bool, err error) {
	w.done, w.served, w.err = true, served, err
	w.show(rec)
}
