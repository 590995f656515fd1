package sqlite

import (
	"context"
	"fmt"

	"palyra/internal/event"
	"palyra/internal/policyadmin"
)

// Ceilings lists what commands set, by name.
func (db *DB) Ceilings(ctx context.Context) ([]policyadmin.Ceiling, error) {
	return list(ctx, db, "reading the ceilings", func(r *Row) (policyadmin.Ceiling, error) {
		c := policyadmin.Ceiling{Name: r.Text(0), Allowed: r.Bool(1), At: r.Time(3), Reason: r.Text(4)}
		return c, c.By.UnmarshalText(r.Bytes(2))
	}, "SELECT name, allowed, set_by, at, reason FROM ceilings ORDER BY name")
}

// PutCeiling keeps a ceiling in place of that of the same name, together with its
// event. At is set by the store.
func (db *DB) PutCeiling(ctx context.Context, c policyadmin.Ceiling, e event.Draft) (policyadmin.Ceiling, error) {
	_, err := db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			c.At = tx.Now()
			if _, err := tx.Exec(`INSERT INTO ceilings (name, allowed, set_by, at, reason) VALUES (?1, ?2, ?3, ?4, ?5)
				ON CONFLICT (name) DO UPDATE SET allowed = ?2, set_by = ?3, at = ?4, reason = ?5`,
				c.Name, c.Allowed, c.By.String(), c.At, c.Reason); err != nil {
				return fmt.Errorf("keeping the ceiling of %s: %w", c.Name, err)
			}
			return nil
		},
		Events: []event.Draft{e},
	})
	return c, err
}
