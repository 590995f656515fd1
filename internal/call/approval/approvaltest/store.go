// Package approvaltest provides an approval.Desk on an embedded store, a judge that counts votes,
// and the conformance suite of stores.
package approvaltest

import (
	"context"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// Store is an embedded store whose next writes can fail.
type Store struct {
	*sqlite.Approvals
	*sqlitetest.Faulty
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	f := sqlitetest.NewFaulty(t)
	return &Store{sqlite.NewApprovals(f.DB), f}
}

// Update implements approval.Store.
func (s *Store) Update(ctx context.Context, fn func(approval.Tx) error) error {
	return s.Write(func() error { return s.Approvals.Update(ctx, fn) })
}
