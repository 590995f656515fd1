// Package guestdata stores the data of skill guests in the embedded store, separately for each
// skill and user. The data is sealed like results.
//
// Keys are not encrypted: listing by prefix and quotas need them, and encryption that preserves the
// order would reveal as much.
package guestdata

import (
	"context"
	"crypto/sha256"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/exec/skill/catalog"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault/atrest"
)

// Store is a catalog.Storage.
type Store struct{ db *sqlite.DB }

var _ catalog.Storage = Store{}

// New returns the storage of guests in a database.
func New(db *sqlite.DB) Store { return Store{db} }

// place returns the place to which a value is sealed. The value cannot be opened at the place
// of another user or skill.
func place(s catalog.Space, key string, digest [sha256.Size]byte) atrest.Place {
	return atrest.Place{Table: "skill_storage", Row: fmt.Sprintf("%q %q %q", s.Skill, s.User, key), Digest: digest}
}

// Get implements catalog.Storage.
func (s Store) Get(ctx context.Context, in catalog.Space, key string) ([]byte, error) {
	var under string
	var digest [sha256.Size]byte
	var box []byte
	found := false
	err := s.db.Read(ctx, func(c *sqlite.Conn) error {
		var err error
		found, err = c.QueryRow("SELECT results_key, digest, box FROM skill_storage WHERE skill = ?1 AND user = ?2 AND key = ?3", func(r *sqlite.Row) error {
			under, box = r.Text(0), r.Bytes(2)
			copy(digest[:], r.Bytes(1))
			return nil
		}, in.Skill, in.User, key)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading a skill's data: %w", err)
	}
	if !found {
		return nil, reason.Errorf(reason.NotFound, "no value is stored under this key")
	}
	return sqlite.NewResults(s.db).Unseal(ctx, place(in, key, digest), under, box)
}

// Put implements catalog.Storage.
func (s Store) Put(ctx context.Context, in catalog.Space, key string, value []byte, most int64) error {
	digest := sha256.Sum256(value)
	under, box, err := sqlite.NewResults(s.db).Seal(ctx, place(in, key, digest), value)
	if err != nil {
		return err
	}
	size := int64(len(key) + len(value))
	return s.change(ctx, func(tx *sqlite.Tx) error {
		var others int64
		if _, err := tx.QueryRow("SELECT coalesce(sum(size), 0) FROM skill_storage WHERE skill = ?1 AND user = ?2", func(r *sqlite.Row) error { others = r.Int64(0); return nil }, in.Skill, in.User); err != nil {
			return err
		}
		if _, err := tx.QueryRow("SELECT size FROM skill_storage WHERE skill = ?1 AND user = ?2 AND key = ?3", func(r *sqlite.Row) error { others -= r.Int64(0); return nil }, in.Skill, in.User, key); err != nil {
			return err
		}
		if others+size > most {
			return reason.Errorf(reason.QuotaExceeded, "the storage holds %d bytes, and with these %d it would be more than %d", others, size, most)
		}
		_, err := tx.Exec(`INSERT INTO skill_storage (skill, user, key, size, digest, results_key, box) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
			ON CONFLICT (skill, user, key) DO UPDATE SET size = ?4, digest = ?5, results_key = ?6, box = ?7`, in.Skill, in.User, key, size, digest[:], under, box)
		return err
	})
}

// Delete implements catalog.Storage.
func (s Store) Delete(ctx context.Context, in catalog.Space, key string) error {
	return s.change(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM skill_storage WHERE skill = ?1 AND user = ?2 AND key = ?3", in.Skill, in.User, key)
		return err
	})
}

// List implements catalog.Storage.
func (s Store) List(ctx context.Context, in catalog.Space, prefix string) (keys []string, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		return c.Query("SELECT key FROM skill_storage WHERE skill = ?1 AND user = ?2 AND substr(key, 1, length(?3)) = ?3 ORDER BY key",
			func(r *sqlite.Row) error { keys = append(keys, r.Text(0)); return nil }, in.Skill, in.User, prefix)
	})
	if err != nil {
		return nil, fmt.Errorf("listing a skill's data: %w", err)
	}
	return keys, nil
}

func (s Store) change(ctx context.Context, do func(*sqlite.Tx) error) error {
	_, err := s.db.Commit(ctx, sqlite.Unit{Check: do})
	return err
}
