package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"palyra/internal/core/event"
	"palyra/internal/exec/upstream/declared"
)

// Upstreams keeps the upstream servers in the embedded store.
type Upstreams struct{ db *DB }

// NewUpstreams returns the upstream servers in db.
func NewUpstreams(db *DB) Upstreams { return Upstreams{db} }

// Upstreams lists the upstream servers by name.
func (s Upstreams) Upstreams(ctx context.Context) ([]declared.Kept, error) {
	return list(ctx, s.db, "reading the upstream servers", func(r *Row) (declared.Kept, error) {
		k := declared.Kept{AddedBy: r.Text(1), AddedAt: r.Time(2), SeenAt: r.Time(5), ApprovedBy: r.Text(6), ApprovedAt: r.Time(7)}
		return k, errors.Join(json.Unmarshal(r.Bytes(0), &k.Server), json.Unmarshal(r.Bytes(3), &k.Approved), json.Unmarshal(r.Bytes(4), &k.Seen))
	}, "SELECT server, added_by, added_at, approved, seen, seen_at, approved_by, approved_at FROM upstreams ORDER BY name")
}

// PutUpstream stores a server, or replaces the server of the same name, and appends events in the
// same transaction.
func (s Upstreams) PutUpstream(ctx context.Context, k declared.Kept, events ...event.Draft) error {
	var texts [3][]byte
	for i, part := range []any{k.Server, k.Approved, k.Seen} {
		text, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("encoding the upstream server %s: %w", k.Server.Name, err)
		}
		texts[i] = text
	}
	_, err := s.db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			if _, err := tx.Exec(`INSERT INTO upstreams (name, server, added_by, added_at, approved, seen, seen_at, approved_by, approved_at)
				VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
				ON CONFLICT (name) DO UPDATE SET server = ?2, added_by = ?3, added_at = ?4, approved = ?5, seen = ?6, seen_at = ?7, approved_by = ?8, approved_at = ?9`,
				k.Server.Name, texts[0], k.AddedBy, k.AddedAt, texts[1], texts[2], k.SeenAt, k.ApprovedBy, k.ApprovedAt); err != nil {
				return fmt.Errorf("storing the upstream server %s: %w", k.Server.Name, err)
			}
			return nil
		},
		Events: events,
	})
	return err
}

// DeleteUpstream deletes a server, and appends events in the same transaction.
func (s Upstreams) DeleteUpstream(ctx context.Context, name string, events ...event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			if _, err := tx.Exec("DELETE FROM upstreams WHERE name = ?1", name); err != nil {
				return fmt.Errorf("removing the upstream server %s: %w", name, err)
			}
			return nil
		},
		Events: events,
	})
	return err
}
