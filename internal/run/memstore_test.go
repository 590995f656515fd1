package run_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/canonical"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/run"
)

var errDisk = errors.New("the disk is full")

// memStore is a run.Store in memory that keeps its promises: a write is
// there as a whole or not at all.
type memStore struct {
	mu     sync.Mutex
	events []journal.Event
	rows   map[string]run.Record
	keys   map[string]string // principal and key to run
	digest map[string]string // run to what was asked
	blobs  map[string][]byte
	// recent is how many events Recent holds.
	recent int
	// ahead is how much the journal's clock is ahead.
	ahead time.Duration
	// fail, when set, is asked before each write.
	fail func(run.Write) error
}

func newMemStore() *memStore {
	return &memStore{
		rows: make(map[string]run.Record), keys: make(map[string]string), digest: make(map[string]string),
		blobs: make(map[string][]byte), recent: 1024,
	}
}

// write appends, with the lock held.
func (s *memStore) write(w run.Write) error {
	if s.fail != nil {
		if err := s.fail(w); err != nil {
			return err
		}
	}
	for i := range w.Drafts {
		if err := journal.CheckDraft(&w.Drafts[i]); err != nil {
			return err
		}
	}
	for _, b := range w.Blobs {
		s.blobs[canonical.Digest(b)] = b
	}
	for _, d := range w.Drafts {
		s.events = append(s.events, journal.Seal(s.head(), d, time.Now().Add(s.ahead), journal.NewNonce()))
	}
	return nil
}

func (s *memStore) head() journal.Head {
	if len(s.events) == 0 {
		return journal.Head{}
	}
	return s.events[len(s.events)-1].Head()
}

// failWith sets or clears what writes are asked.
func (s *memStore) failWith(fail func(run.Write) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *memStore) Head() journal.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head()
}

func (s *memStore) Recent(after int64) ([]journal.Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < int64(len(s.events)-s.recent) || after > int64(len(s.events)) {
		return nil, false
	}
	return slices.Clone(s.events[after:]), true
}

func (s *memStore) Events(ctx context.Context, f journal.Filter) ([]journal.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var page []journal.Event
	for _, e := range s.events {
		if e.Run == f.Run && strings.HasPrefix(string(e.Code), f.Code) && e.Seq > f.After && (f.UpTo == 0 || e.Seq <= f.UpTo) {
			page = append(page, e)
		}
	}
	if f.Newest {
		slices.Reverse(page)
	}
	return page[:min(len(page), cmp.Or(f.Limit, journal.DefaultLimit))], nil
}

func (s *memStore) Blob(_ context.Context, digest string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.blobs[digest]; ok {
		return b, nil
	}
	return nil, reason.Errorf(reason.NotFound, "there is no blob %s", digest)
}

func (s *memStore) Started(_ context.Context, b run.Beginning) (run.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started(b)
}

func keyOf(b run.Beginning) string { return b.Record.Principal.String() + " " + b.Key }

// started is Started with the lock held.
func (s *memStore) started(b run.Beginning) (run.Record, bool, error) {
	id, known := s.keys[keyOf(b)]
	switch {
	case !known || b.Key == "":
		return run.Record{}, false, nil
	case s.digest[id] != b.Digest:
		return run.Record{}, false, reason.Errorf(reason.IdempotencyMismatch, "another run")
	}
	return s.rows[id], true, nil
}

func (s *memStore) Begin(_ context.Context, b run.Beginning) (run.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, found, err := s.started(b); found || err != nil {
		return r, false, err
	}
	if err := s.write(b.Write); err != nil {
		return run.Record{}, false, err
	}
	r := b.Record
	r.StartedAt = s.head().At
	s.rows[r.ID], s.keys[keyOf(b)], s.digest[r.ID] = r, r.ID, b.Digest
	return r, true, nil
}

func (s *memStore) Append(_ context.Context, w run.Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(w)
}

func (s *memStore) End(_ context.Context, r run.Record, w run.Write) (run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[r.ID].State != run.Running {
		return r, reason.Errorf(reason.RunEnded, "run %s has ended already", r.ID)
	}
	if err := s.write(w); err != nil {
		return r, err
	}
	r.EndedAt = s.head().At
	s.rows[r.ID] = r
	return r, nil
}

func (s *memStore) Get(_ context.Context, id string) (run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.rows[id]; ok {
		return r, nil
	}
	return run.Record{}, reason.Errorf(reason.NotFound, "there is no run %s", id)
}

func (s *memStore) List(_ context.Context, f run.Filter) (page []run.Record, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if (len(f.States) == 0 || slices.Contains(f.States, r.State)) && (f.PageToken == "" || r.ID < f.PageToken) {
			page = append(page, r)
		}
	}
	slices.SortFunc(page, func(a, b run.Record) int { return strings.Compare(b.ID, a.ID) })
	if size := run.PageSize(f.PageSize); len(page) > size {
		page, next = page[:size], page[size-1].ID
	}
	return page, next, nil
}

// codes lists the journal's codes for a run.
func (s *memStore) codes(id string) (codes []event.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Run == id {
			codes = append(codes, e.Code)
		}
	}
	return codes
}

// text is all that is stored: payloads, blobs and rows.
func (s *memStore) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, e := range s.events {
		b.Write(e.Payload)
	}
	for _, blob := range s.blobs {
		b.Write(blob)
	}
	for _, r := range s.rows {
		b.WriteString(r.Message + r.Detail)
	}
	return b.String()
}
