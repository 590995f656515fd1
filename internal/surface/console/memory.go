package console

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// openSessions holds the active sessions. Each method is atomic. sessionsInMemory is the
// implementation for one process; several replicas need one that they share.
type openSessions interface {
	add(s session)
	// get returns the session of a cookie.
	get(cookie digest) (session, bool)
	// use sets the time of the last use of a cookie's session, and when it will be idle.
	use(cookie digest, at, idleAt time.Time)
	// remove removes the session with an id and returns it. The bool is true for one caller only.
	remove(id string) (session, bool)
	// list returns the matching sessions, newest first.
	list(match func(session) bool) []Session
}

type sessionsInMemory struct {
	mu       sync.Mutex
	byCookie map[digest]session
}

func newSessionsInMemory() *sessionsInMemory {
	return &sessionsInMemory{byCookie: make(map[digest]session)}
}

func (m *sessionsInMemory) add(s session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byCookie[s.cookie] = s
}

func (m *sessionsInMemory) get(cookie digest) (session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.byCookie[cookie]
	return s, ok
}

func (m *sessionsInMemory) use(cookie digest, at, idleAt time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.byCookie[cookie]; ok {
		s.UsedAt, s.IdleAt = at, idleAt
		m.byCookie[cookie] = s
	}
}

func (m *sessionsInMemory) remove(id string) (session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cookie, s := range m.byCookie {
		if s.ID == id {
			delete(m.byCookie, cookie)
			return s, true
		}
	}
	return session{}, false
}

func (m *sessionsInMemory) list(match func(session) bool) (list []Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.byCookie {
		if match(s) {
			list = append(list, s.Session)
		}
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Compare(b.ID, a.ID) })
	return list
}
