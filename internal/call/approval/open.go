package approval

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// openRequests holds the requests that are pending or allowed, and the calls that wait for
// them, while they are open. Each method is atomic.
//
// It wakes waiting calls, matches identical asks and lists requests whose deadlines passed. It
// MUST NOT allow anything: the Store is authoritative. memory is the implementation for one
// process; several replicas need one that they share.
type openRequests interface {
	waiters
	// settle updates a request to its record that has become durable, and wakes its waiters.
	// Records may come out of order; an older one changes nothing.
	settle(rec Record)
	// anticipate adds the call of an edit that is about to be stored, so that settle finds it.
	anticipate(id string, ask *Ask)
	// find returns an open request; the bool is false if the id is not open.
	find(id, callDigest string) (openRequest, bool)
	// each calls fn with every open record. fn MUST NOT change or keep it.
	each(fn func(*Record))
	// overdue removes at most limit deadlines that have passed and returns their ids, and the
	// next deadline, which is zero if none is left.
	overdue(now time.Time, limit int) (ids []string, next time.Time)
	// postpone moves the deadlines of requests that could not be expired, and returns err to
	// their waiters.
	postpone(ids []string, until time.Time, err error)
}

// waiters attaches calls to the open requests.
type waiters interface {
	// enter finds the request that serves an ask and attaches the call to it. If no request
	// does, it reserves one, so that an identical ask joins it instead of creating another.
	enter(ask *Ask) (place, error)
	// abandon removes a reserved request that could not be stored, and returns the error to its
	// waiters.
	abandon(p place, err error)
	// look returns the state of a waiting call, and marks its record as passed to the observer.
	look(p place) waiter
	// detach removes a waiter without side effects.
	detach(p place)
	// leave removes a waiter and returns the record. The bool is true if the waiter was the
	// last one of a pending request and withdraws it; no call may then join the request.
	leave(p place, withdraws bool) (Record, bool)
	// reopen lets calls join a request again that could not be withdrawn.
	reopen(p place)
	// release offers the answer of an allowed record in that version to identical asks again.
	release(id string, version int64)
}

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

// entry is a pending or allowed record in memory. The lock of memory guards it.
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

// waiter is one call that waits on a record. The lock of memory guards it.
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
