// Package vaulttest has an embedded store of a vault whose writes can fail, keys in memory, and
// the conformance suite of vault.Store.
package vaulttest

import (
	"context"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault"
)

// Store is an embedded store whose writes can fail.
type Store struct {
	sqlite.SecretStore
	*sqlitetest.Faulty
	// OnUse is called after a use was recorded; may be nil.
	OnUse func()
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	f := sqlitetest.NewFaulty(t)
	return &Store{SecretStore: sqlite.NewSecrets(f.DB), Faulty: f}
}

// Edit changes a record directly, like an attacker with write access to the store's file. A
// missing record is created.
func (s *Store) Edit(ref vault.Ref, edit func(*vault.Record)) {
	r, _ := s.Record(context.Background(), ref) // it may not exist
	edit(&r)
	s.Faulty.Edit(func(tx *sqlite.Tx) error {
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
	events := s.Events()
	s.Faulty.Edit(func(tx *sqlite.Tx) error {
		for _, e := range events {
			if _, err := tx.Exec("UPDATE events SET payload = ?2 WHERE seq = ?1", e.Seq, edit(e.Payload)); err != nil {
				return err
			}
		}
		return nil
	})
}

// PutRecord implements vault.Store.
func (s *Store) PutRecord(ctx context.Context, r vault.Record, old []byte, e event.Draft) error {
	return s.Write(func() error { return s.SecretStore.PutRecord(ctx, r, old, e) })
}

// UseRecord implements vault.Store.
func (s *Store) UseRecord(ctx context.Context, ref vault.Ref, seal []byte, e event.Draft) error {
	err := s.Write(func() error { return s.SecretStore.UseRecord(ctx, ref, seal, e) })
	if s.OnUse != nil {
		s.OnUse()
	}
	return err
}

// RemoveRecord implements vault.Store.
func (s *Store) RemoveRecord(ctx context.Context, ref vault.Ref, e event.Draft) error {
	return s.Write(func() error { return s.SecretStore.RemoveRecord(ctx, ref, e) })
}

// KeepExport implements vault.Store.
func (s *Store) KeepExport(ctx context.Context, keks []string, e event.Draft) error {
	return s.Write(func() error { return s.SecretStore.KeepExport(ctx, keks, e) })
}

// Journal implements vault.Store.
func (s *Store) Journal(ctx context.Context, e event.Draft) error {
	return s.Write(func() error { return s.SecretStore.Journal(ctx, e) })
}

// ReplaceBoxes implements vault.Boxes.
func (s *Store) ReplaceBoxes(ctx context.Context, old, fresh []vault.Box) error {
	return s.Write(func() error { return s.SecretStore.ReplaceBoxes(ctx, old, fresh) })
}
