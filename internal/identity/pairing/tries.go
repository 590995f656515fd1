package pairing

import (
	"context"
	"sync"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/identity"
)

// tries counts the attempts to use codes, until they are journaled.
type tries struct {
	journal Journal

	// mu guards counts.
	mu     sync.Mutex
	counts map[tried]*triedTimes
}

// tried is a kind of attempt; the attempts of one minute are one event. code is "" if it does not
// exist, because strangers choose such ids.
type tried struct {
	address, code, outcome string
}

type triedTimes struct {
	count       int
	first, last time.Time
}

// mostTried limits the number of kinds that are counted separately.
const mostTried = 256

// note counts an attempt.
func (t *tries) note(kind tried) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[kind] == nil && len(t.counts) >= mostTried {
		kind = tried{"others", "", kind.outcome}
	}
	now := time.Now().UTC()
	if t.counts[kind] == nil {
		t.counts[kind] = &triedTimes{first: now}
	}
	t.counts[kind].count++
	t.counts[kind].last = now
}

// record journals the counted attempts. If that fails, the counts are kept for the next time.
func (t *tries) record(ctx context.Context) {
	t.mu.Lock()
	counted := t.counts
	t.counts = map[tried]*triedTimes{}
	t.mu.Unlock()
	for kind, n := range counted {
		err := t.journal.Record(ctx, event.PairingTried, identity.Daemon().String(), kind.code, triedEvent{
			Address: kind.address, Outcome: kind.outcome, Count: n.count, First: n.first, Last: n.last,
		})
		if err != nil {
			t.mu.Lock()
			if later := t.counts[kind]; later != nil {
				n.count, n.last = n.count+later.count, later.last
			}
			t.counts[kind] = n
			t.mu.Unlock()
		}
	}
}
