package approval

import (
	"slices"
	"sync"
	"time"

	"palyra/internal/call/approval/internal/deadline"
)

// requestsInMemory holds the open requests of one process. It bounds them by quota, and answers
// asks that were denied recently from memory. It is safe for concurrent use, and each method
// without the suffix Locked is atomic.
type requestsInMemory struct {
	limits Limits
	now    func() time.Time
	key    func(Ask) callKey

	mu     sync.Mutex
	byID   map[string]*entry
	byCall map[callKey][]*entry
	quota  *quota
	cool   *cooldown
	due    *deadline.Queue
}

// enter finds the request that serves an ask and attaches the call to it. If no request does, it
// reserves one, so that an identical ask joins it instead of creating another.
func (m *requestsInMemory) enter(ask *Ask) (place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	key := m.key(*ask)
	if e := m.usableLocked(key, now); e != nil {
		e.claimedUntil = now.Add(m.limits.Claim)
		rec := e.rec
		return place{how: claimed, rec: &rec}, nil
	}
	if e := m.joinableLocked(key, now); e != nil {
		w := newWaiter()
		e.waiters = append(e.waiters, w)
		if e.rec.State == Pending {
			w.show(e.displayed())
		}
		return place{how: joined, entry: e, waiter: w}, nil
	}
	if rec, ok := m.cool.recall(ask, now); ok {
		return place{how: remembered, rec: &rec}, nil
	}
	e, err := m.reserveLocked(ask, key, now)
	if err != nil {
		return place{}, err
	}
	return place{how: created, entry: e, waiter: e.waiters[0]}, nil
}

// usableLocked finds an allowed record that no other call holds.
func (m *requestsInMemory) usableLocked(key callKey, now time.Time) *entry {
	for _, e := range m.byCall[key] {
		if e.rec.State == Allowed && !now.Before(e.claimedUntil) && now.Before(e.rec.UseBy) {
			return e
		}
	}
	return nil
}

func (m *requestsInMemory) joinableLocked(key callKey, now time.Time) *entry {
	for _, e := range m.byCall[key] {
		if (e.rec.State == Pending || e.rec.State == "") && !e.leaving && (e.rec.ExpiresAt.IsZero() || now.Before(e.rec.ExpiresAt)) {
			return e
		}
	}
	return nil
}

// reserveLocked creates the entry of a record that is not stored yet.
func (m *requestsInMemory) reserveLocked(ask *Ask, key callKey, now time.Time) (*entry, error) {
	id, err := newID(now)
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, rec: Record{ID: id}, key: key, resolved: ask.Resolved, ready: make(chan struct{}), delivered: make(chan struct{}), waiters: []*waiter{newWaiter()}, counted: true}
	e.run = runOf(Record{RequestedBy: ask.Proposal.Caller.Principal, Run: ask.Proposal.Run, Session: ask.Proposal.Session})
	if err := m.quota.take(e.run, now); err != nil {
		return nil, err
	}
	m.addLocked(e)
	return e, nil
}

// abandon removes a reserved request that could not be stored, and fails its waiters.
func (m *requestsInMemory) abandon(p place, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.entry.fail(err)
	m.removeLocked(p.entry)
}

// look returns the state of a waiting call, and marks its record as passed to the observer.
func (m *requestsInMemory) look(p place) waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := *p.waiter
	p.waiter.fresh = false
	return now
}

func (m *requestsInMemory) detach(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.entry.remove(p.waiter)
}

// leave removes a waiter and returns the record. The bool is true if the waiter was the last one
// of a pending request and withdraws it; no call may then join the request.
func (m *requestsInMemory) leave(p place, withdraws bool) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, w := p.entry, p.waiter
	if w.served {
		e.claimedUntil = m.now() // a repeated identical call may have it
	}
	e.remove(w)
	last := withdraws && !w.done && len(e.waiters) == 0 && e.rec.State == Pending
	e.leaving = e.leaving || last
	return e.rec, last
}

// reopen lets calls join a request again that could not be withdrawn.
func (m *requestsInMemory) reopen(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.entry.leaving = false
}

// settle updates a request to its record that has become durable, and wakes its waiters. Records
// may come out of order; an older one changes nothing.
func (m *requestsInMemory) settle(rec Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[rec.ID]
	if !ok || rec.Version <= e.rec.Version {
		return
	}
	was := e.rec.State
	rec.Request = nil // the store has it for the Judge
	if rec.CallDigest != e.rec.CallDigest && e.rec.CallDigest != "" {
		m.rekeyLocked(e, rec)
	}
	rec.Input = e.calls[rec.CallDigest].input
	e.rec = rec
	switch {
	case rec.State == Pending:
		m.due.Set(rec.ID, rec.deadline())
		displayed := e.displayed()
		for _, w := range e.waiters {
			w.show(displayed)
		}
	case rec.State == Allowed:
		m.allowLocked(e)
	default:
		m.closeLocked(e, was)
	}
}

// allowLocked serves the call that waited longest; the others ask again.
func (m *requestsInMemory) allowLocked(e *entry) {
	displayed := e.rec
	m.uncountLocked(e)
	m.due.Set(e.rec.ID, e.rec.deadline())
	for i, w := range e.waiters {
		w.finish(&displayed, i == 0, nil)
	}
	if len(e.waiters) > 0 {
		e.claimedUntil = m.now().Add(m.limits.Claim)
	}
	e.waiters = nil
}

func (m *requestsInMemory) closeLocked(e *entry, was State) {
	if was != Allowed && (e.rec.State == Denied || e.rec.State == Expired) {
		for _, what := range append(e.before, e.resolved) {
			m.cool.remember(e.rec, what)
		}
	}
	displayed := e.rec
	for _, w := range e.waiters {
		w.finish(&displayed, false, nil)
	}
	e.waiters = nil
	m.removeLocked(e)
}

func (m *requestsInMemory) addLocked(e *entry) {
	m.byID[e.id] = e
	m.byCall[e.key] = append(m.byCall[e.key], e)
}

// removeLocked removes an entry that is settled, or that was never stored.
func (m *requestsInMemory) removeLocked(e *entry) {
	delete(m.byID, e.id)
	removeFrom(m.byCall, e.key, e)
	m.uncountLocked(e)
	m.due.Remove(e.id)
}

// removeFrom removes a value from a list, and the list from its map if it becomes empty.
func removeFrom[K, V comparable](lists map[K][]V, key K, v V) {
	lists[key] = slices.DeleteFunc(lists[key], func(other V) bool { return other == v })
	if len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// rekeyLocked moves the entry of an edited record to the key of the new call. Calls that are
// identical to the previous version then need their own record.
func (m *requestsInMemory) rekeyLocked(e *entry, rec Record) {
	removeFrom(m.byCall, e.key, e)
	e.key = keyOfRecord(rec)
	m.byCall[e.key] = append(m.byCall[e.key], e)
	e.before, e.resolved = append(e.before, e.resolved), e.calls[rec.CallDigest].resolved
}

func (m *requestsInMemory) uncountLocked(e *entry) {
	if e.counted {
		e.counted = false
		m.quota.drop(e.run)
	}
}

// release offers the answer of an allowed record in that version to identical asks again.
func (m *requestsInMemory) release(id string, version int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.byID[id]; ok && e.rec.Version == version {
		e.claimedUntil = m.now()
	}
}
