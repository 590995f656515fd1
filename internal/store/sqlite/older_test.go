package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// olderJournal returns 300 events, one of them a checkpoint.
func olderJournal(t *testing.T) (events []journal.Event, opts sqlite.Options) {
	t.Helper()
	signer, known := sqlitetest.Key(t)
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var edge journal.Edge
	var head journal.Head
	for n := range 300 {
		d := draft(n)
		if n == 280 {
			cp := must.Get(journal.SignCheckpoint(signer, edge.Size(), edge.Root()))(t)
			d = checkpointDraft(t, cp)
		}
		e := journal.Seal(head, d, at.Add(time.Duration(n)*time.Second), journal.NewNonce())
		edge.Append(e.Hash)
		head, events = e.Head(), append(events, e)
	}
	return events, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin}
}

// olderRows adds a member with a device whose only key is in the device's own columns.
const olderRows = `INSERT INTO members (principal, owner, roles, disabled, created_at) VALUES ('user:ada', '', '["owner"]', 0, 1);
INSERT INTO devices (id, principal, name, local, serial, key_sha256, created_at, not_after, revoked_by, revoke_reason, version)
 VALUES ('01JNA3Q0G0DEV1CE0000000009', 'user:ada', 'laptop', 0, '01', 'sha256:aa', 1700000000123000, 1800000000000000, '', '', 1);`

// files returns the names and contents of a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		found[e.Name()] = must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
	}
	return found
}

// assertRefused opens a store in every way. Each must fail with the words, and no byte may
// change.
func assertRefused(t *testing.T, path string, opts sqlite.Options, words string) {
	t.Helper()
	before := files(t, filepath.Dir(path))
	for name, open := range map[string]func() error{
		"CheckSchema":  func() error { _, _, err := sqlite.CheckSchema(path); return err },
		"Open":         func() error { _, err := sqlite.Open(t.Context(), path, opts); return err },
		"Snapshot":     func() error { return sqlite.Snapshot(t.Context(), path, filepath.Join(t.TempDir(), "copy.db")) },
		"OpenReadOnly": func() error { _, err := sqlite.OpenReadOnly(t.Context(), path); return err },
		"Verify":       func() error { _, err := sqlite.Verify(t.Context(), path, opts.Origin, opts.Verifiers); return err },
	} {
		err := open()
		if reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), words) || !strings.Contains(reason.Known(err, reason.Internal).NextStep(), "commit") {
			t.Errorf("%s: %v, %s", name, err, reason.Known(err, reason.Internal).NextStep())
		}
	}
	after := files(t, filepath.Dir(path))
	if len(after) != len(before) {
		t.Errorf("there are %d files, and were %d", len(after), len(before))
	}
	for name, content := range before {
		if !bytes.Equal(after[name], content) {
			t.Errorf("%s changed", name)
		}
	}
}

// TestOlderSchemaIsRefused: a store of an older schema is refused before a byte is written. The
// control is the last older schema, which is upgraded.
func TestOlderSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1", "20", "35", "36"} {
		path := filepath.Join(t.TempDir(), "palyra.db")
		events, opts := olderJournal(t)
		must.Do(t, sqlite.MakeOlder(path, events, olderRows+"PRAGMA user_version = "+version))
		if version == "36" {
			if have, newest, err := sqlite.CheckSchema(path); err != nil || have != 36 || newest <= have {
				t.Errorf("schema version %d of %d, %v", have, newest, err)
			}
			sqlitetest.OpenAt(t, path, opts)
			continue
		}
		assertRefused(t, path, opts, "schema version "+version+", which this palyrad does not upgrade")
	}
}

// TestUnfinishedUpgradeIsRefused: a store with plain data that the earlier palyrad had not
// sealed yet is refused, whichever data remains.
func TestUnfinishedUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{
		"blob":     `INSERT INTO blobs (digest, data) VALUES (X'00', X'00')`,
		"step":     `INSERT INTO untended (what) VALUES ('free pages')`,
		"approval": `INSERT INTO approvals (id, revision, state, version, subject_type, requested_by, on_behalf_of, tool, created_at, body) VALUES ('01A', 1, 'denied', 2, 'tool', 'user:ada', 'user:ada', 'echo', 1, X'7B7D')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "palyra.db")
			events, opts := olderJournal(t)
			must.Do(t, sqlite.MakeOlder(path, events, olderRows+left))
			assertRefused(t, path, opts, "has not finished the upgrade")
		})
	}
}

// TestLastOlderSchema: after the start, a store of the last older schema has the tables of a
// new one, has lost nothing, verifies, and accepts events.
func TestLastOlderSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	events, opts := olderJournal(t)
	must.Do(t, sqlite.MakeOlder(path, events, olderRows))
	older := must.Get(sqlite.OpenReadOnly(t.Context(), path))(t)
	if list := must.Get(sqlite.NewIdentity(older).Members(t.Context()))(t); len(list) != 1 {
		t.Errorf("read-only: members %+v", list)
	}
	must.Do(t, older.Close(t.Context()))
	db := sqlitetest.OpenAt(t, path, opts)
	if last := events[len(events)-1]; db.Head() != last.Head() {
		t.Errorf("head %+v, want %+v", db.Head(), last.Head())
	}
	list := must.Get(sqlite.NewIdentity(db).Devices(t.Context()))(t)
	if len(list) != 1 || len(list[0].Keys) != 1 {
		t.Fatalf("devices %+v", list)
	}
	key := list[0].Keys[0]
	if key.SHA256 != "sha256:aa" || !key.NotAfter.Equal(list[0].NotAfter) || !key.UsedAt.Equal(list[0].CreatedAt) {
		t.Errorf("key %+v of %+v", key, list[0])
	}
	mustAppend(t, db, drafts(20)...)
	must.Do(t, db.Close(t.Context()))
	if got, want := schema(t, path), newSchema(t); got != want {
		t.Errorf("the schema is\n%s\nwant\n%s", got, want)
	}
	sum, err := sqlite.Verify(t.Context(), path, opts.Origin, opts.Verifiers)
	if err != nil || sum.Events != 320 || sum.Checkpoints != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// newSchema returns the schema of a new store.
func newSchema(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, sqlitetest.OpenAt(t, path, sqlite.Options{}).Close(t.Context()))
	return schema(t, path)
}

// schema returns the sorted text of a store's schema, with its version.
func schema(t *testing.T, path string) (text string) {
	t.Helper()
	conn := must.Get(zs.OpenConn(path, zs.OpenReadOnly))(t)
	defer func() { must.Do(t, conn.Close()) }()
	for _, query := range []string{"PRAGMA user_version", "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"} {
		must.Do(t, sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{ResultFunc: func(s *zs.Stmt) error {
			text += s.ColumnText(0) + "\n"
			return nil
		}}))
	}
	return text
}

// TestDamagedOlderStoreIsNotMigrated: a store that does not verify is not changed, not even by
// a schema upgrade.
func TestDamagedOlderStoreIsNotMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	events, opts := olderJournal(t)
	events[290].Actor = "user:mallory"
	must.Do(t, sqlite.MakeOlder(path, events, ""))
	before := schema(t, path)
	if _, err := sqlite.Open(t.Context(), path, opts); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("open: %v", err)
	}
	if schema(t, path) != before {
		t.Error("the schema changed")
	}
}
