package sqlite

import (
	"context"
	"fmt"

	"palyra/internal/core/event"
	"palyra/internal/vault"
)

// SecretStore stores secrets in the embedded store.
type SecretStore struct{ db *DB }

var _ vault.Store = SecretStore{}

// NewSecrets returns the secrets of the vault in db.
func NewSecrets(db *DB) SecretStore { return SecretStore{db} }

const vaultColumns = `s.scope, s.key, s.newest, s.metadata, s.seal, s.placed, s.last_used_at, e.code, e.payload, s.held_by`

// lastEvents joins the newest event that put, ended or removed each secret. It uses events_secrets
// only, because uses of a secret are also indexed under it.
const lastEvents = ` LEFT JOIN events e ON e.seq =
 (SELECT max(seq) FROM events WHERE subject = 'vault://' || s.scope || '/' || s.key AND (code = 'PAL-S200' OR code = 'PAL-S204' OR code = 'PAL-S208')) `

const (
	oneSecret   = "SELECT " + vaultColumns + " FROM secrets s" + lastEvents + "WHERE s.scope = ?1 AND s.key = ?2"
	manySecrets = "SELECT " + vaultColumns + ", v.kek, v.wrapped_key FROM secrets s" + lastEvents + `
 LEFT JOIN secret_versions v ON v.scope = s.scope AND v.key = s.key AND v.version = s.newest
 WHERE (s.scope, s.key) > (?1, ?2)`
)

func scanSecret(r *Row) vault.Record {
	return vault.Record{
		Ref: vault.Ref{Scope: r.Text(0), Key: r.Text(1)}, Newest: r.Int(2), Metadata: r.Bytes(3), Seal: r.Bytes(4), Placed: r.Bool(5), LastUsed: r.Time(6),
		Last: vault.LastEvent{Code: event.Code(r.Text(7)), Payload: r.Bytes(8)}, HeldBy: r.Text(9),
	}
}

// Record returns a secret with all its versions.
func (s SecretStore) Record(ctx context.Context, ref vault.Ref) (record vault.Record, err error) {
	found := false
	err = s.db.Read(ctx, func(c *Conn) error {
		found, err = c.QueryRow(oneSecret, func(r *Row) error {
			record = scanSecret(r)
			return nil
		}, ref.Scope, ref.Key)
		if err != nil || !found {
			return err
		}
		return c.Query("SELECT version, kek, wrapped_key, box FROM secret_versions WHERE scope = ?1 AND key = ?2 ORDER BY version", func(r *Row) error {
			record.Versions = append(record.Versions, vault.Version{Number: r.Int(0), KEK: r.Text(1), Key: r.Bytes(2), Box: r.Bytes(3)})
			return nil
		}, ref.Scope, ref.Key)
	})
	if err != nil {
		return record, fmt.Errorf("reading secret %s: %w", ref, err)
	}
	if !found {
		return record, vault.NoSuchSecret(ref)
	}
	return record, nil
}

// Records lists secrets by scope and key.
func (s SecretStore) Records(ctx context.Context, q vault.Query) ([]vault.Record, error) {
	query := manySecrets
	args := []any{q.After.Scope, q.After.Key, q.Limit}
	if q.Scope != "" {
		query += " AND s.scope = ?4"
		args = append(args, q.Scope)
	}
	if q.Placed {
		query += " AND s.placed"
	}
	return list(ctx, s.db, "listing secrets", func(r *Row) (vault.Record, error) {
		one := scanSecret(r)
		if !r.IsNull(10) {
			one.Versions = []vault.Version{{Number: one.Newest, KEK: r.Text(10), Key: r.Bytes(11)}}
		}
		return one, nil
	}, query+" ORDER BY s.scope, s.key LIMIT ?3", args...)
}

// PutRecord stores a secret and its event.
func (s SecretStore) PutRecord(ctx context.Context, r vault.Record, old []byte, e event.Draft) error {
	return s.change(ctx, e, func(tx *Tx) error {
		n, err := putSecret(tx, r, old)
		if err != nil {
			return fmt.Errorf("keeping secret %s: %w", r.Ref, err)
		}
		if n == 0 {
			return vault.ErrChanged
		}
		if err := putVersions(tx, r); err != nil {
			return fmt.Errorf("keeping the versions of secret %s: %w", r.Ref, err)
		}
		return nil
	})
}

func putSecret(tx *Tx, r vault.Record, old []byte) (int, error) {
	if old == nil {
		return tx.Exec(`INSERT INTO secrets (scope, key, newest, metadata, seal, placed) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING`,
			r.Ref.Scope, r.Ref.Key, r.Newest, r.Metadata, r.Seal, r.Placed)
	}
	return tx.Exec(`UPDATE secrets SET newest = ?3, metadata = ?4, seal = ?5, placed = ?6 WHERE scope = ?1 AND key = ?2 AND seal = ?7`,
		r.Ref.Scope, r.Ref.Key, r.Newest, r.Metadata, r.Seal, r.Placed, old)
}

// putVersions adds the versions with a sealed value, and deletes the versions missing from r, which
// are the oldest.
func putVersions(tx *Tx, r vault.Record) error {
	if len(r.Versions) == 0 {
		return nil
	}
	if _, err := tx.Exec("DELETE FROM secret_versions WHERE scope = ?1 AND key = ?2 AND version < ?3", r.Ref.Scope, r.Ref.Key, r.Versions[0].Number); err != nil {
		return err
	}
	for _, v := range r.Versions {
		if v.Box == nil {
			continue
		}
		if _, err := tx.Exec("INSERT OR REPLACE INTO secret_versions (scope, key, version, kek, wrapped_key, box) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
			r.Ref.Scope, r.Ref.Key, v.Number, v.KEK, v.Key, v.Box); err != nil {
			return err
		}
	}
	return nil
}

// UseRecord stores a use of a secret with its event.
func (s SecretStore) UseRecord(ctx context.Context, ref vault.Ref, seal []byte, e event.Draft) error {
	return s.change(ctx, e, func(tx *Tx) error {
		n, err := tx.Exec("UPDATE secrets SET last_used_at = ?4 WHERE scope = ?1 AND key = ?2 AND seal = ?3", ref.Scope, ref.Key, seal, tx.Now())
		if err != nil {
			return fmt.Errorf("noting the use of secret %s: %w", ref, err)
		}
		if n == 0 {
			return vault.ErrChanged
		}
		return nil
	})
}

// RemoveRecord deletes a secret with its versions, and stores the event.
func (s SecretStore) RemoveRecord(ctx context.Context, ref vault.Ref, e event.Draft) error {
	return s.change(ctx, e, func(tx *Tx) error {
		if _, err := tx.Exec("DELETE FROM secret_versions WHERE scope = ?1 AND key = ?2", ref.Scope, ref.Key); err != nil {
			return fmt.Errorf("removing the versions of secret %s: %w", ref, err)
		}
		n, err := tx.Exec("DELETE FROM secrets WHERE scope = ?1 AND key = ?2", ref.Scope, ref.Key)
		if err != nil {
			return fmt.Errorf("removing secret %s: %w", ref, err)
		}
		if n == 0 {
			return vault.NoSuchSecret(ref)
		}
		return nil
	})
}

// KeepExport records that keys were exported, with its event.
func (s SecretStore) KeepExport(ctx context.Context, keks []string, e event.Draft) error {
	return s.change(ctx, e, func(tx *Tx) error {
		for _, id := range keks {
			if _, err := tx.Exec("INSERT INTO vault_exports (kek, at) VALUES (?1, ?2) ON CONFLICT (kek) DO UPDATE SET at = ?2", id, tx.Now()); err != nil {
				return fmt.Errorf("noting the export of %s: %w", id, err)
			}
		}
		return nil
	})
}

// Exports lists the keys that were exported.
func (s SecretStore) Exports(ctx context.Context) ([]vault.Exported, error) {
	return list(ctx, s.db, "reading the exports", func(r *Row) (vault.Exported, error) {
		return vault.Exported{KEK: r.Text(0), At: r.Time(1)}, nil
	}, "SELECT kek, at FROM vault_exports ORDER BY kek")
}

// Journal records an event that changes no secret.
func (s SecretStore) Journal(ctx context.Context, e event.Draft) error {
	return s.change(ctx, e, nil)
}

func (s SecretStore) change(ctx context.Context, e event.Draft, write func(*Tx) error) error {
	_, err := s.db.Commit(ctx, Unit{Events: []event.Draft{e}, Check: write})
	return err
}

// StaleBoxes lists the data keys that are not wrapped by the current key-encryption key.
func (s SecretStore) StaleBoxes(ctx context.Context, current string, after vault.Box, limit int) ([]vault.Box, error) {
	ref, version := vault.Ref{}, 0
	if after.About != "" {
		var err error
		if ref, version, err = vault.ParseAbout(after.About); err != nil {
			return nil, err
		}
	}
	return list(ctx, s.db, "listing the keys of secrets", func(r *Row) (vault.Box, error) {
		return vault.Box{About: vault.About(vault.Ref{Scope: r.Text(1), Key: r.Text(2)}, r.Int(3)), KEK: r.Text(0), Key: r.Bytes(4)}, nil
	}, `SELECT kek, scope, key, version, wrapped_key FROM secret_versions
 WHERE kek <> ?1 AND (kek, scope, key, version) > (?2, ?3, ?4, ?5) ORDER BY kek, scope, key, version LIMIT ?6`,
		current, after.KEK, ref.Scope, ref.Key, version, limit)
}

// ReplaceBoxes stores data keys that are wrapped with another key-encryption key.
func (s SecretStore) ReplaceBoxes(ctx context.Context, old, fresh []vault.Box) error {
	_, err := s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		for i, b := range fresh {
			ref, version, err := vault.ParseAbout(b.About)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE secret_versions SET kek = ?4, wrapped_key = ?5 WHERE scope = ?1 AND key = ?2 AND version = ?3 AND kek = ?6 AND wrapped_key = ?7`,
				ref.Scope, ref.Key, version, b.KEK, b.Key, old[i].KEK, old[i].Key); err != nil {
				return fmt.Errorf("replacing the key of secret %s: %w", ref, err)
			}
		}
		return nil
	}})
	return err
}
