package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/agent/watch"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// InstalledStore records installations into agents in the embedded store.
type InstalledStore struct{ db *DB }

var _ watch.Store = InstalledStore{}

// NewInstalled returns the installed agents in db.
func NewInstalled(db *DB) InstalledStore { return InstalledStore{db} }

const installationColumns = `id, agent, scope, transport, entries, registered_by, registered_at`

// Installations returns all installations, by id.
func (s InstalledStore) Installations(ctx context.Context) ([]watch.Installation, error) {
	return list(ctx, s.db, "reading installations", scanInstallation, "SELECT "+installationColumns+" FROM installations ORDER BY id")
}

func scanInstallation(r *Row) (watch.Installation, error) {
	i := watch.Installation{ID: r.Text(0), Agent: r.Text(1), Scope: r.Text(2), Transport: r.Text(3), At: r.Time(6)}
	if err := json.Unmarshal(r.Bytes(4), &i.Entries); err != nil {
		return i, fmt.Errorf("entries of installation %s: %w", i.ID, err)
	}
	return i, i.By.UnmarshalText(r.Bytes(5))
}

// PutInstallation adds or replaces an installation, with its event.
func (s InstalledStore) PutInstallation(ctx context.Context, i watch.Installation, e event.Draft) error {
	entries, err := json.Marshal(i.Entries)
	if err != nil {
		return fmt.Errorf("entries of installation %s: %w", i.ID, err)
	}
	_, err = s.db.Commit(ctx, Unit{Events: []event.Draft{e}, Check: func(tx *Tx) error {
		_, err := tx.Exec("INSERT OR REPLACE INTO installations ("+installationColumns+") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			i.ID, i.Agent, i.Scope, i.Transport, string(entries), i.By.String(), i.At)
		return err
	}})
	return err
}

// DropInstallation removes an installation and stores its event.
func (s InstalledStore) DropInstallation(ctx context.Context, id string, e event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{Events: []event.Draft{e}, Check: func(tx *Tx) error {
		n, err := tx.Exec("DELETE FROM installations WHERE id = ?1", id)
		if err == nil && n == 0 {
			return reason.Errorf(reason.NotFound, "installation %s not found", id)
		}
		return err
	}})
	return err
}
