package sqlite

import (
	"context"
	"fmt"

	"palyra/internal/core/access"
	"palyra/internal/core/limit"
)

// Written is the amount written by one unit and its actor.
type Written struct {
	// Actor is the actor of the unit's first event.
	Actor string
	// Precedence is the precedence of the unit.
	Precedence access.Precedence
	// Bytes is the size of its events and of the values bound into rows.
	Bytes int64
}

// eventCost is the size of an event without its payload, in bytes.
const eventCost = 512

// written returns the amount written by a committed unit. It is zero for a unit without events,
// which has no actor.
func (p *pending) written() Written {
	if len(p.events) == 0 {
		return Written{}
	}
	w := Written{Actor: p.events[0].Actor, Precedence: p.unit.Precedence, Bytes: p.bound}
	for i := range p.events {
		w.Bytes += eventCost + int64(len(p.events[i].Payload))
	}
	return w
}

// reportWritten reports the units of a committed batch to Wrote.
func (w *writer) reportWritten(batch []*pending) {
	if w.wrote == nil {
		return
	}
	for _, p := range batch {
		if p.err == nil && len(p.events) > 0 {
			w.wrote(p.written())
		}
	}
}

// sizeOfArgs returns the number of bytes of text and blobs in the arguments of a statement.
func sizeOfArgs(args []any) (n int64) {
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			n += int64(len(v))
		case []byte:
			n += int64(len(v))
		}
	}
	return n
}

// Usage is the limit.Store of the embedded store.
type Usage struct{ db *DB }

var _ limit.Store = Usage{}

// NewUsage returns in db how much principals stored.
func NewUsage(db *DB) Usage { return Usage{db} }

// Usage implements limit.Store.
func (s Usage) Usage(ctx context.Context, from int64) ([]limit.Usage, error) {
	return list(ctx, s.db, "reading what quotas count", func(r *Row) (limit.Usage, error) {
		return limit.Usage{Who: r.Text(0), Hour: r.Int64(1), Bytes: r.Int64(2)}, nil
	}, "SELECT who, hour, bytes FROM usage WHERE hour >= ?1 ORDER BY who, hour", from)
}

// PutUsage implements limit.Store.
func (s Usage) PutUsage(ctx context.Context, list []limit.Usage, from int64) error {
	_, err := s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		if _, err := tx.Exec("DELETE FROM usage WHERE hour < ?1", from); err != nil {
			return fmt.Errorf("forgetting what quotas no longer count: %w", err)
		}
		for _, u := range list {
			if _, err := tx.Exec("INSERT INTO usage (who, hour, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET bytes = ?3", u.Who, u.Hour, u.Bytes); err != nil {
				return fmt.Errorf("keeping what quotas count: %w", err)
			}
		}
		return nil
	}})
	return err
}
