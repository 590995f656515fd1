package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/call/policyadmin/policyadmintest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestPolicyStore(t *testing.T) {
	t.Parallel()
	policyadmintest.RunStore(t, func(t *testing.T) policyadmintest.Fixture {
		db := sqlitetest.Open(t)
		return policyadmintest.Journaled(db, db.Events, func(ctx context.Context, d event.Draft) error {
			_, err := db.Append(ctx, d)
			return err
		})
	})
}

func TestPolicySnapshots(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	for i := range 3 {
		p := policyadmintest.Keep(t, db, fmt.Sprintf("sha256:v%d", i%2), "user:a", false)
		if got, err := db.Snapshot(t.Context(), p.SnapshotDigest); err != nil || string(got) != string(p.Snapshot) {
			t.Errorf("%s: %s, %v", p.Version, got, err)
		}
	}
	assertCount(t, db, "SELECT count(*) FROM snapshots", 2)
	if _, err := db.Snapshot(t.Context(), "sha256:none"); reason.Of(err) != reason.NotFound {
		t.Errorf("an unknown digest: %v", err)
	}
}

// An activation lasts over a restart.
func TestActivatedPolicy(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/palyra.db"
	db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	policyadmintest.Keep(t, db, "sha256:b", "user:a", true)
	must.Do(t, db.Close(t.Context()))
	policyadmintest.WantActivated(t, sqlitetest.OpenAt(t, path, sqlite.Options{}), "sha256:b")
}

// An older store's versions get who loaded them, and how many policies they
// have, from the journal; its snapshots have no inputs.
func TestMigrationFillsPolicyVersions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, sqlite.MakeOld(path, 6, func(c *sqlite.Conn) error {
		var head journal.Head
		var errs []error
		for n, d := range []struct{ actor, version string }{{"user:first", "sha256:a"}, {"user:later", "sha256:a"}, {"user:b", "sha256:b"}} {
			payload := fmt.Sprintf(`{"policies":%d,"policy_version":%q}`, 20+n, d.version)
			e := journal.Seal(head, event.Draft{Code: event.PolicyLoaded, Actor: d.actor, Payload: []byte(payload)}, time.Now(), journal.NewNonce())
			head = e.Head()
			errs = append(errs, c.Query(`INSERT INTO events (seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload)
				VALUES (?1, ?2, ?3, ?4, '', '', ?5, '', ?6, ?7, ?8, ?9, ?10)`, nil,
				e.Seq, e.At, e.ID, e.Code, e.Actor, e.Hash[:], e.PrevHash[:], e.PayloadSHA256[:], e.Salt, []byte(e.Payload)))
		}
		for _, version := range []string{"sha256:a", "sha256:b", "sha256:unknown"} {
			errs = append(errs, c.Query("INSERT INTO policy_versions (version, sources, at) VALUES (?1, ?2, 1)", nil, version, []byte(`[]`)))
		}
		return errors.Join(append(errs, c.Query("INSERT INTO snapshots (digest, content, at) VALUES ('sha256:s', ?1, 1)", nil, []byte(`{}`)))...)
	}))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	list := must.Get(db.PolicyVersions(t.Context(), 0, 10))(t)
	got := ""
	for _, v := range list {
		got += fmt.Sprintf("%s %s %d; ", v.Version, v.LoadedBy, v.Policies)
	}
	if got != "sha256:unknown  0; sha256:b user:b 22; sha256:a user:first 20; " {
		t.Errorf("versions: %s", got)
	}
	if v, found, err := db.LastPolicy(t.Context()); err != nil || !found || v.Version != "sha256:b" {
		t.Errorf("%q was in force last, %v", v.Version, err)
	}
	if inputs, err := db.SnapshotInputs(t.Context(), "sha256:s"); err != nil || inputs != nil {
		t.Errorf("inputs %q, %v", inputs, err)
	}
}
