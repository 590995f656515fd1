package sqlite_test

import (
	"context"
	"fmt"
	"testing"

	"palyra/internal/call/policyadmin/policyadmintest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestPolicyStore(t *testing.T) {
	t.Parallel()
	policyadmintest.RunStore(t, func(t *testing.T) policyadmintest.Fixture {
		db := sqlitetest.Open(t)
		return policyadmintest.Journaled(sqlite.NewPolicies(db), db.Events, func(ctx context.Context, d event.Draft) error {
			_, err := db.Append(ctx, d)
			return err
		})
	})
}

func TestPolicySnapshots(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	for i := range 3 {
		p := policyadmintest.Keep(t, sqlite.NewPolicies(db), fmt.Sprintf("sha256:v%d", i%2), "user:a", false)
		if got, err := sqlite.NewPolicies(db).Snapshot(t.Context(), p.SnapshotDigest); err != nil || string(got) != string(p.Snapshot) {
			t.Errorf("%s: %s, %v", p.Version, got, err)
		}
	}
	assertCount(t, db, "SELECT count(*) FROM snapshots", 2)
	if _, err := sqlite.NewPolicies(db).Snapshot(t.Context(), "sha256:none"); reason.Of(err) != reason.NotFound {
		t.Errorf("an unknown digest: %v", err)
	}
}

// An activation survives a restart.
func TestActivatedPolicy(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/palyra.db"
	db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	policyadmintest.Keep(t, sqlite.NewPolicies(db), "sha256:b", "user:a", true)
	must.Do(t, db.Close(t.Context()))
	policyadmintest.WantActivated(t, sqlite.NewPolicies(sqlitetest.OpenAt(t, path, sqlite.Options{})), "sha256:b")
}
