package run

import (
	"encoding/json"
	"sync"
	"sync/atomic"
)

// The memory limits of tapes, in bytes: for each, and in total.
const (
	tapeBytes      = 4 << 20
	tapeCacheBytes = 64 << 20
)

// tapeCache has the tapes of active and recently ended runs.
type tapeCache struct {
	// most and each limit the memory of all tapes and of each.
	most int64
	each int
	used atomic.Int64

	mu    sync.Mutex
	tapes map[string]*tape
	// order is the order in which the runs started.
	order []*tape
}

func newTapeCache() *tapeCache {
	return &tapeCache{most: tapeCacheBytes, each: tapeBytes, tapes: make(map[string]*tape)}
}

// open creates the tape of a run that is about to start.
func (s *tapeCache) open(store Store, r Record) *tape {
	t := &tape{
		store: store, cache: s, run: r.ID, bytes: s.each, mapper: newMapper(r), scanned: store.Head().Seq,
		results: make(map[string]json.RawMessage), texts: make(map[string]string), changed: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tapes[r.ID] = t
	s.order = append(s.order, t)
	return t
}

// find returns the tape of a run, or nil.
func (s *tapeCache) find(id string) *tape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tapes[id]
}

// remove removes a tape; its watchers continue in the journal.
func (s *tapeCache) remove(t *tape) {
	t.lose()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tapes, t.run)
	for i, other := range s.order {
		if other == t {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// trim evicts the oldest tapes until the rest fits.
func (s *tapeCache) trim() {
	if s.used.Load() <= s.most {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.order {
		if s.used.Load() <= s.most {
			return
		}
		t.evict()
	}
}
