package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// olderRows are rows that a palyrad of each schema version could have left.
var olderRows = []struct {
	since int
	sql   string
}{
	{2, `INSERT INTO approvals (id, revision, state, version, subject_type, requested_by, on_behalf_of, tool, created_at, body, request)
 VALUES ('01A', 1, 'denied', 2, 'tool', 'user:ada', 'user:ada', 'echo', 1, X'7B7D', X'7B7D');`},
	{3, `INSERT INTO members (principal, owner, roles, disabled, created_at) VALUES ('user:ada', '', '["owner"]', 0, 1);`},
	{4, `INSERT INTO claims (principal, key, digest, proposal_id, at) VALUES ('user:ada', 'k', 'd', 'p', 1);`},
	{5, `INSERT INTO pins (tool, digest, definition, refused, at) VALUES ('echo', 'd', X'7B7D', '', 1);`},
}

// olderJournal is 300 events, one of them a checkpoint.
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

// TestOlderSchemaVersions opens a store of every earlier schema version, with
// data in it: it is brought up to date, loses nothing, verifies and goes on.
func TestOlderSchemaVersions(t *testing.T) {
	t.Parallel()
	versions := must.Get(sqlite.SchemaVersions())(t)
	newest := versions[len(versions)-1]
	for _, version := range versions {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "palyra.db")
			events, opts := olderJournal(t)
			rows, kept := "", 0
			for _, r := range olderRows {
				if r.since <= version {
					rows, kept = rows+r.sql, kept+1
				}
			}
			must.Do(t, sqlite.MakeOlder(path, version, events, rows))
			before := must.Get(sqlite.OpenReadOnly(t.Context(), path))(t)
			if before.Older() != (version < newest) {
				t.Errorf("it counts as of an older release: %v", before.Older())
			}
			must.Do(t, before.Close(t.Context()))
			if version >= 3 {
				assertOneMember(t, must.Get(sqlite.OpenReadOnly(t.Context(), path))(t), true)
			}
			db := sqlitetest.OpenAt(t, path, opts)
			if version >= 3 {
				assertOneMember(t, db, false)
			}
			last := events[len(events)-1]
			if db.Head() != last.Head() {
				t.Errorf("head %+v, want %+v", db.Head(), last.Head())
			}
			for i, table := range []string{"approvals", "members", "claims", "pins"} {
				want := int64(0)
				if i < kept {
					want = 1
				}
				assertCount(t, db, "SELECT count(*) FROM "+table, want)
			}
			if version >= 2 && version < 6 {
				assertCount(t, db, "SELECT count(*) FROM approvals WHERE request IS NULL", 1)
			}
			mustAppend(t, db, drafts(20)...)
			must.Do(t, db.Close(t.Context()))
			if got, err := sqlite.StoredVersion(path); err != nil || got != newest {
				t.Errorf("schema version %d, %v, want %d", got, err, newest)
			}
			sum, err := sqlite.Verify(t.Context(), path, opts.Origin, opts.Verifiers)
			if err != nil || sum.Events != 320 || sum.Checkpoints != 1 {
				t.Errorf("%+v, %v", sum, err)
			}
		})
	}
}

// TestDamagedOlderStoreIsNotMigrated: what does not verify is not touched, not
// even to bring its schema up to date.
func TestDamagedOlderStoreIsNotMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	events, opts := olderJournal(t)
	events[290].Actor = "user:mallory"
	must.Do(t, sqlite.MakeOlder(path, 1, events, ""))
	if _, err := sqlite.Open(t.Context(), path, opts); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("open: %v", err)
	}
	if got, err := sqlite.StoredVersion(path); err != nil || got != 1 {
		t.Errorf("schema version %d, %v, want 1 still", got, err)
	}
}

// assertOneMember: the member of before is one that was not removed, before the
// upgrade as after it.
func assertOneMember(t *testing.T, db *sqlite.DB, end bool) {
	t.Helper()
	list := must.Get(db.Identity().Members(t.Context()))(t)
	if len(list) != 1 || list[0].Principal != access.User("ada") || list[0].Removed() || !list[0].Holds(access.RoleOwner) {
		t.Errorf("members %+v", list)
	}
	if end {
		must.Do(t, db.Close(t.Context()))
	}
}
