package run_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// store is an embedded store whose writes can fail, and which remembers the blobs.
type store struct {
	*sqlite.Runs
	t  testing.TB
	db *sqlite.DB
	// kept is how many events Recent can return.
	kept int64
	// ahead is how far the clock of the journal is ahead, as a time.Duration.
	ahead atomic.Int64

	mu    sync.Mutex
	fail  func(run.Write) error
	blobs map[string]string
	// hidden are the digests of the blobs that Blob does not find.
	hidden []string
}

func newStore(t testing.TB) *store {
	t.Helper()
	s := &store{t: t, kept: 1024, blobs: map[string]string{}}
	s.db = sqlitetest.OpenMigrated(t, sqlitetest.Dir(t)+"/palyra.db", sqlite.Options{Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }})
	s.Runs = sqlite.NewRuns(s.db)
	return s
}

// failWith sets or clears the function that may fail writes.
func (s *store) failWith(fail func(run.Write) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// prepare returns the error of a write, or remembers its blobs.
func (s *store) prepare(w run.Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(w); err != nil {
			return err
		}
	}
	for _, b := range w.Blobs {
		s.blobs[canonical.Digest(b)] = string(b)
	}
	return nil
}

func (s *store) Begin(ctx context.Context, b run.Beginning) (run.Record, bool, error) {
	if err := s.prepare(b.Write); err != nil {
		return run.Record{}, false, err
	}
	return s.Runs.Begin(ctx, b)
}

func (s *store) Append(ctx context.Context, w run.Write) error {
	if err := s.prepare(w); err != nil {
		return err
	}
	return s.Runs.Append(ctx, w)
}

func (s *store) End(ctx context.Context, r run.Record, w run.Write) (run.Record, error) {
	if err := s.prepare(w); err != nil {
		return r, err
	}
	return s.Runs.End(ctx, r, w)
}

func (s *store) Recent(after int64) ([]journal.Event, bool) {
	if after < s.Head().Seq-s.kept {
		return nil, false
	}
	return s.Runs.Recent(after)
}

func (s *store) Blob(ctx context.Context, digest string) ([]byte, error) {
	s.mu.Lock()
	hidden := slices.Contains(s.hidden, digest)
	s.mu.Unlock()
	if hidden {
		return nil, reason.Errorf(reason.NotFound, "blob %s not found", digest)
	}
	return s.Runs.Blob(ctx, digest)
}

// hideBlobs hides all blobs except one text, and returns the number of hidden ones.
func (s *store) hideBlobs(except string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, text := range s.blobs {
		if text != except {
			s.hidden = append(s.hidden, digest)
		}
	}
	return len(s.hidden)
}

// all returns all events.
func (s *store) all() []journal.Event {
	return must.Get(s.db.Events(s.t.Context(), journal.Filter{Limit: 1 << 16}))(s.t)
}

// codes lists the journal's codes for a run.
func (s *store) codes(id string) (codes []event.Code) {
	for _, e := range s.all() {
		if e.Run == id {
			codes = append(codes, e.Code)
		}
	}
	return codes
}

// text returns all stored payloads, blobs and rows.
func (s *store) text() string {
	var b strings.Builder
	for _, e := range s.all() {
		b.Write(e.Payload)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.blobs {
		b.WriteString(text)
	}
	rows, _, err := s.List(s.t.Context(), run.Filter{PageSize: 500})
	must.Check(s.t, err)
	for _, r := range rows {
		b.WriteString(r.Message + r.Detail)
	}
	return b.String()
}
