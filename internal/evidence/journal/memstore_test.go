package journal_test

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

const gateway = "gateway.test"

// memStore is a Store in memory. Tests tamper with its events.
type memStore struct {
	*journal.Feed
	mu     sync.Mutex
	now    func() time.Time
	events []journal.Event
	tiles  map[[2]int64]journal.Tile
	edge   journal.Edge
	nonce  uint64
	// refuse, if set, is the error that Append returns.
	refuse error
}

func newMemStore(now func() time.Time) *memStore {
	return &memStore{Feed: journal.NewFeed(), now: now, tiles: map[[2]int64]journal.Tile{}}
}

// nextNonce counts up, so that tests and vectors are the same in every run.
func (s *memStore) nextNonce() (n journal.Nonce) {
	s.nonce++
	binary.BigEndian.PutUint64(n.Salt[24:], s.nonce)
	binary.BigEndian.PutUint64(n.ID[2:], s.nonce)
	return n
}

func (s *memStore) Append(_ context.Context, drafts ...event.Draft) ([]journal.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	var fresh []journal.Event
	head := s.Head()
	for _, d := range drafts {
		e := journal.Seal(head, d, s.now(), s.nextNonce())
		for _, t := range s.edge.Append(e.Hash) {
			s.tiles[[2]int64{int64(t.Level), t.N}] = t
		}
		head = e.Head()
		fresh = append(fresh, e)
	}
	s.events = append(s.events, fresh...)
	s.Publish(head, fresh)
	return fresh, nil
}

func (s *memStore) Events(_ context.Context, f journal.Filter) ([]journal.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []journal.Event
	for _, e := range s.events {
		if strings.HasPrefix(string(e.Code), f.Code) && e.Seq > f.After && (f.UpTo == 0 || e.Seq <= f.UpTo) {
			out = append(out, e)
		}
	}
	if f.Newest {
		slices.Reverse(out)
	}
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, nil
}

func (s *memStore) Scan(_ context.Context, after, upTo int64, fn func(*journal.Event) error) error {
	s.mu.Lock()
	page := slices.Clone(s.events)
	s.mu.Unlock()
	for _, e := range page {
		if e.Seq > after && e.Seq <= upTo {
			if err := fn(&e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memStore) Tree(_ context.Context, size int64, fn func(*journal.Tree) error) error {
	return fn(journal.NewTree(size, memTiles{s}))
}

type memTiles struct{ s *memStore }

func (t memTiles) Tile(level int, n int64) ([]byte, error) {
	return t.s.tiles[[2]int64{int64(level), n}].Hashes, nil
}

func (t memTiles) TileRoots(level int, from, to int64) (roots [][32]byte, err error) {
	for n := from; n < to; n++ {
		roots = append(roots, t.s.tiles[[2]int64{int64(level), n}].Root)
	}
	return roots, nil
}

func (t memTiles) EventHashes(from, to int64) (hashes [][32]byte, err error) {
	for _, e := range t.s.events {
		if e.Seq > from && e.Seq <= to {
			hashes = append(hashes, e.Hash)
		}
	}
	return hashes, nil
}

// testKey derives a key from a seed byte.
func testKey(t testing.TB, seed byte) *journal.Key {
	t.Helper()
	return must.Get(journal.NewKey(gateway, ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))))(t)
}

// testClock returns a clock that starts at a fixed time and advances one second per reading.
func testClock() func() time.Time {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	return func() time.Time {
		at = at.Add(time.Second)
		return at
	}
}

func newLog(t testing.TB, s *memStore, seed byte) *journal.Log {
	t.Helper()
	return must.Get(journal.New(s, journal.Options{Key: testKey(t, seed)}))(t)
}

func draft(n int) event.Draft {
	return event.Draft{
		Code: event.Proposed, Session: "s1", Run: "r1", Actor: "agent:test",
		Subject: fmt.Sprintf("p%d", n), Payload: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"ä\n"}`, n)),
	}
}

// fill appends n events, one at a time.
func fill(t testing.TB, log *journal.Log, n int) {
	t.Helper()
	for i := range n {
		must.Get(log.Append(t.Context(), draft(i)))(t)
	}
}

func checkpoint(t testing.TB, log *journal.Log) journal.Checkpoint {
	t.Helper()
	return must.Get(log.Checkpoints.Write(t.Context()))(t)
}
