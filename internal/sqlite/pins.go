package sqlite

import (
	"context"
	"fmt"

	"palyra/internal/event"
	"palyra/internal/policyadmin"
)

// Pins lists the stored tool definitions by name.
func (db *DB) Pins(ctx context.Context) ([]policyadmin.Pin, error) {
	return list(ctx, db, "reading the pins of tool definitions", func(r *Row) (policyadmin.Pin, error) {
		return policyadmin.Pin{Tool: r.Text(0), Digest: r.Text(1), Definition: r.Bytes(2), Refused: r.Text(3), At: r.Time(4)}, nil
	}, "SELECT tool, digest, definition, refused, at FROM pins ORDER BY tool")
}

// PutPins stores pins, in place of those of the same tools, together with the
// events that say why. At is set by the store.
func (db *DB) PutPins(ctx context.Context, pins []policyadmin.Pin, events ...event.Draft) error {
	_, err := db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			for _, p := range pins {
				if _, err := tx.Exec(`INSERT INTO pins (tool, digest, definition, refused, at) VALUES (?1, ?2, ?3, ?4, ?5)
					ON CONFLICT (tool) DO UPDATE SET digest = ?2, definition = ?3, refused = ?4, at = ?5`,
					p.Tool, p.Digest, p.Definition, p.Refused, tx.Now()); err != nil {
					return fmt.Errorf("pinning tool %s: %w", p.Tool, err)
				}
			}
			return nil
		},
		Events: events,
	})
	return err
}
