// Package approvaltest provides an approval.Desk on an embedded store, a judge that counts votes,
// and the conformance suite of stores.
package approvaltest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// Store is an embedded store whose next writes can fail.
type Store struct {
	*sqlite.Approvals
	t  testing.TB
	db *sqlite.DB

	mu   sync.Mutex
	fail []error
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	db := sqlitetest.Open(t)
	return &Store{Approvals: sqlite.NewApprovals(db), t: t, db: db}
}

// FailNext makes the next Update fail with err. Each call makes one more Update fail.
func (s *Store) FailNext(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = append(s.fail, err)
}

// Update implements approval.Store.
func (s *Store) Update(ctx context.Context, fn func(approval.Tx) error) error {
	s.mu.Lock()
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = slices.Delete(s.fail, 0, 1)
		s.mu.Unlock()
		return err
	}
	s.mu.Unlock()
	return s.Approvals.Update(ctx, fn)
}

// Events returns the journaled events in order.
func (s *Store) Events() []journal.Event {
	s.t.Helper()
	return sqlitetest.Events(s.t, s.db)
}
