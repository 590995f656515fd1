// Package journaltest has a journal in memory, which the in-memory stores of other packages'
// tests use.
package journaltest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// Memory stores events and blobs in memory. A write is atomic.
type Memory struct {
	// Mutex is locked by the writer; Write requires it.
	sync.Mutex
	events []journal.Event
	blobs  map[string][]byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Write appends events and stores blobs. The caller holds the lock. It returns the time of the
// write.
func (m *Memory) Write(drafts []event.Draft, blobs [][]byte) (time.Time, error) {
	for i := range drafts {
		if err := journal.CheckDraft(&drafts[i]); err != nil {
			return time.Time{}, err
		}
	}
	now := m.Time()
	for _, d := range drafts {
		m.events = append(m.events, journal.Seal(m.Last(), d, now, journal.NewNonce()))
	}
	if m.blobs == nil {
		m.blobs = make(map[string][]byte)
	}
	for _, b := range blobs {
		m.blobs[canonical.Digest(b)] = b
	}
	if len(drafts) > 0 {
		now = m.Last().At
	}
	return now, nil
}

// Time returns the time of the clock.
func (m *Memory) Time() time.Time {
	if m.Now == nil {
		return time.Now().UTC()
	}
	return m.Now()
}

// Last returns the head of the newest event. The caller holds the lock.
func (m *Memory) Last() journal.Head {
	if len(m.events) == 0 {
		return journal.Head{}
	}
	return m.events[len(m.events)-1].Head()
}

// All returns all events; they never change.
func (m *Memory) All() []journal.Event {
	m.Lock()
	defer m.Unlock()
	return slices.Clip(m.events)
}

// Blobs returns all blobs by their digests. The caller holds the lock.
func (m *Memory) Blobs() map[string][]byte { return m.blobs }

// Events returns a page of the events that match the filter.
func (m *Memory) Events(ctx context.Context, f journal.Filter) ([]journal.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var page []journal.Event
	for _, e := range m.All() {
		if matches(&e, f) {
			page = append(page, e)
		}
	}
	if f.Newest {
		slices.Reverse(page)
	}
	return page[:min(len(page), cmp.Or(f.Limit, journal.DefaultLimit))], nil
}

func matches(e *journal.Event, f journal.Filter) bool {
	for _, one := range [][2]string{{f.Session, e.Session}, {f.Run, e.Run}, {f.Subject, e.Subject}, {f.Actor, e.Actor}} {
		if one[0] != "" && one[0] != one[1] {
			return false
		}
	}
	return strings.HasPrefix(string(e.Code), f.Code) && e.Seq > f.After && (f.UpTo == 0 || e.Seq <= f.UpTo) &&
		!e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// Blob returns the blob of a digest.
func (m *Memory) Blob(_ context.Context, digest string) ([]byte, error) {
	m.Lock()
	defer m.Unlock()
	if b, ok := m.blobs[digest]; ok {
		return b, nil
	}
	return nil, reason.Errorf(reason.NotFound, "blob %s not found", digest)
}
