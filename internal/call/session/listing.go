package session

import (
	"time"
)

// UnderWay counts the calls of all principals that have not ended.
func (b *Book) UnderWay() int { return b.open.underWayOfAll() }

// Ended removes a session that a person ended. Its calls under way still count in it; the next
// call of its caller begins another session.
func (b *Book) Ended(key Key, id string) { b.open.end(key, id) }

// Did returns the state of a session, if it is held in memory.
func (b *Book) Did(key Key, id string) (Did, bool) { return b.open.did(key, id) }

// Idle returns how long a session lasts without a call.
func (b *Book) Idle() time.Duration { return b.idle }

func (b *inMemory) underWayOfAll() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, calls := range b.underWay {
		n += calls
	}
	return n
}

func (b *inMemory) end(key Key, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[key]; s != nil && s.row.ID == id {
		b.sessions[key] = nil
	}
}

func (b *inMemory) did(key Key, id string) (Did, bool) {
	b.mu.Lock()
	s := b.sessions[key]
	b.mu.Unlock()
	if s == nil || s.row.ID != id {
		return Did{}, false
	}
	return s.did(), true
}

// did returns a copy of the session's state.
func (s *session) did() Did {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Did{Facts: s.copied(), RunCalls: s.runCalls, Limit: s.limit, LastAt: time.UnixMicro(s.lastAt.Load()).UTC()}
	d.Facts.BytesOut += s.reserved
	return d
}
