// Package vaulttest has an embedded store of a vault whose writes can fail, keys in memory, and
// the conformance suite of vault.Store.
package vaulttest

import (
	"context"
	"sync"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault"
)

// Store is an embedded store whose writes can fail.
type Store struct {
	sqlite.SecretStore
	// OnUse is called after a use was recorded; may be nil.
	OnUse func()

	t    testing.TB
	db   *sqlite.DB
	mu   sync.Mutex
	fail error
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	db := sqlitetest.Open(t)
	return &Store{SecretStore: sqlite.NewSecrets(db), t: t, db: db}
}

// Fail makes every method that writes fail with err; nil stops that.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Events returns the journaled events.
func (s *Store) Events() []journal.Event {
	s.t.Helper()
	return sqlitetest.Events(s.t, s.db)
}

// Edit changes a record directly, like an attacker with write access to the store's file. A
// missing record is created.
func (s *Store) Edit(ref vault.Ref, edit func(*vault.Record)) {
	s.t.Helper()
	r, err := s.Record(context.Background(), ref)
	if err != nil && reason.Of(err) != reason.NotFound {
		s.t.Fatal(err)
	}
	edit(&r)
	s.commit(func(tx *sqlite.Tx) error {
		if _, err := tx.Exec("DELETE FROM secret_versions WHERE scope = ?1 AND key = ?2", ref.Scope, ref.Key); err != nil {
			return err
		}
		for _, v := range r.Versions {
			if _, err := tx.Exec("INSERT INTO secret_versions (scope, key, version, kek, wrapped_key, box) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
				ref.Scope, ref.Key, v.Number, v.KEK, v.Key, v.Box); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT OR REPLACE INTO secrets (scope, key, newest, metadata, seal, placed, held_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			ref.Scope, ref.Key, r.Newest, r.Metadata, r.Seal, r.Placed, r.HeldBy)
		return err
	})
}

// EditEvents changes the payloads of the journaled events directly.
func (s *Store) EditEvents(edit func(payload []byte) []byte) {
	s.t.Helper()
	events := s.Events()
	s.commit(func(tx *sqlite.Tx) error {
		for _, e := range events {
			if _, err := tx.Exec("UPDATE events SET payload = ?2 WHERE seq = ?1", e.Seq, edit(e.Payload)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) commit(write func(*sqlite.Tx) error) {
	s.t.Helper()
	must.Get(s.db.Commit(context.Background(), sqlite.Unit{Check: write}))(s.t)
}

// unlessFailing writes, or returns the error of Fail.
func (s *Store) unlessFailing(write func() error) error {
	s.mu.Lock()
	err := s.fail
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return write()
}

// PutRecord implements vault.Store.
func (s *Store) PutRecord(ctx context.Context, r vault.Record, old []byte, e event.Draft) error {
	return s.unlessFailing(func() error { return s.SecretStore.PutRecord(ctx, r, old, e) })
}

// UseRecord implements vault.Store.
func (s *Store) UseRecord(ctx context.Context, ref vault.Ref, seal []byte, e event.Draft) error {
	err := s.unlessFailing(func() error { return s.SecretStore.UseRecord(ctx, ref, seal, e) })
	if s.OnUse != nil {
		s.OnUse()
	}
	return err
}

// RemoveRecord implements vault.Store.
func (s *Store) RemoveRecord(ctx context.Context, ref vault.Ref, e event.Draft) error {
	return s.unlessFailing(func() error { return s.SecretStore.RemoveRecord(ctx, ref, e) })
}

// KeepExport implements vault.Store.
func (s *Store) KeepExport(ctx context.Context, keks []string, e event.Draft) error {
	return s.unlessFailing(func() error { return s.SecretStore.KeepExport(ctx, keks, e) })
}

// Journal implements vault.Store.
func (s *Store) Journal(ctx context.Context, e event.Draft) error {
	return s.unlessFailing(func() error { return s.SecretStore.Journal(ctx, e) })
}

// ReplaceBoxes implements vault.Boxes.
func (s *Store) ReplaceBoxes(ctx context.Context, old, fresh []vault.Box) error {
	return s.unlessFailing(func() error { return s.SecretStore.ReplaceBoxes(ctx, old, fresh) })
}
