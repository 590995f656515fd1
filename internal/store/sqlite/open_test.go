package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func mustAppend(t testing.TB, db *sqlite.DB, drafts ...event.Draft) journal.Event {
	t.Helper()
	events := must.Get(db.Append(context.Background(), drafts...))(t)
	return events[len(events)-1]
}

func drafts(n int) (list []event.Draft) {
	for i := range n {
		list = append(list, draft(i))
	}
	return list
}

func verifyWhole(t *testing.T, db *sqlite.DB) {
	t.Helper()
	if _, err := journal.VerifyAll(t.Context(), db, "", nil); err != nil {
		t.Error(err)
	}
}

func make20k() []byte { return bytes.Repeat([]byte("x"), 20<<10) }

func checkpointDraft(t testing.TB, cp journal.Checkpoint) event.Draft {
	t.Helper()
	payload := must.Get(canonical.Marshal(map[string]any{"note": cp.Note, "root": hex.EncodeToString(cp.Root[:]), "size": cp.Size}))(t)
	return event.Draft{Code: event.Checkpoint, Actor: journal.Daemon, Payload: payload}
}

func TestFileMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, os.WriteFile(path, nil, 0o644))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	mustAppend(t, db, draft(1))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", suffix, info.Mode(), err)
		}
	}
}

func TestReopenContinuesTheJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	signer, known := sqlitetest.Key(t)
	opts := sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin}
	var last journal.Event
	for round := range 4 {
		db, err := sqlite.Open(t.Context(), path, opts)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if db.Head() != last.Head() {
			t.Fatalf("round %d: head %+v, want %+v", round, db.Head(), last.Head())
		}
		mustAppend(t, db, drafts(300)...)
		checkpointAll(t, db, signer)
		last = mustAppend(t, db, draft(7))
		must.Do(t, db.Close(t.Context()))
	}
	sum, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known)
	if err != nil || sum.Events != 4*302 || sum.Checkpoints != 4 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		pragma string
		want   reason.Code
		says   string
	}{
		{"newer schema", "PRAGMA user_version = 9999", reason.ConfigInvalid, "schema version 9999"},
		{"another program", "PRAGMA application_id = 7", reason.ConfigInvalid, "another program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "palyra.db")
			db := sqlitetest.OpenAt(t, path, sqlite.Options{})
			must.Do(t, sqlite.WriterPragma(db, c.pragma))
			must.Do(t, db.Close(t.Context()))
			for _, open := range []func() error{
				func() error { _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); return err },
				func() error { _, err := sqlite.OpenReadOnly(t.Context(), path); return err },
			} {
				var e *reason.Error
				if err := open(); !errors.As(err, &e) || e.Code != c.want || !strings.Contains(e.Error(), c.says) || e.Remedy == "" {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600))
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); reason.Of(err) != reason.VerificationFailed && reason.Of(err) != reason.JournalUnavailable {
		t.Errorf("a text file: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "palyra.db"), sqlite.Options{}); reason.Of(err) != reason.JournalUnavailable {
		t.Errorf("a missing directory: %v", err)
	}
}

// damaged returns a store of 400 events with a checkpoint over 350 of them.
func damaged(t *testing.T) (path string, known note.Verifiers) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "palyra.db")
	signer, known := sqlitetest.Key(t)
	db := sqlitetest.OpenAt(t, path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
	mustAppend(t, db, drafts(350)...)
	checkpointAll(t, db, signer)
	mustAppend(t, db, drafts(49)...)
	must.Do(t, db.Close(t.Context()))
	return path, known
}

// edit changes rows of a closed store.
func edit(t *testing.T, path, query string) {
	t.Helper()
	db := must.Get(sqlite.OpenUnverified(path))(t)
	must.Do(t, sqlite.Exec(db, query))
	must.Do(t, db.Close(t.Context()))
}

func TestDamageOnDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		seq         int64
		// atOpen means that Open already detects the damage; only Verify detects older damage.
		atOpen bool
	}{
		{"untouched", "SELECT 1", 0, false},
		{"old payload", `UPDATE events SET payload = CAST('{"n":666}' AS BLOB) WHERE seq = 20`, 20, false},
		{"old hash", `UPDATE events SET hash = zeroblob(32) WHERE seq = 200`, 200, false},
		{"short hash", `UPDATE events SET hash = x'00' WHERE seq = 300`, 300, true},
		{"hash in the unfinished tile", `UPDATE events SET hash = zeroblob(32) WHERE seq = 300`, 300, true},
		{"old event dropped", `DELETE FROM events WHERE seq = 30`, 30, false},
		{"tile", `UPDATE tiles SET hashes = zeroblob(8192) WHERE level = 0 AND n = 0`, 1, false},
		{"tile dropped", `DELETE FROM tiles`, 1, true},
		{"tile root", `UPDATE tiles SET root = zeroblob(32)`, 1, true},
		{"new payload", `UPDATE events SET payload = CAST('{"n":666}' AS BLOB) WHERE seq = 380`, 380, true},
		{"new event dropped", `DELETE FROM events WHERE seq = 370`, 370, true},
		{"last covered event", `UPDATE events SET actor = 'user:mallory' WHERE seq = 350`, 350, true},
		{"checkpoint", `UPDATE events SET payload = CAST('{}' AS BLOB) WHERE seq = 351`, 351, true},
		{"time", `UPDATE events SET at = at - 1000000 WHERE seq = 390`, 390, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, known := damaged(t)
			edit(t, path, c.query)
			_, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known)
			assertDamage(t, "verify", err, c.seq)
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
			if !c.atOpen {
				assertDamage(t, "open", err, 0)
				if err == nil {
					err = db.Close(t.Context())
				}
				must.Check(t, err)
				return
			}
			var e *reason.Error
			if !errors.As(err, &e) || e.Code != reason.VerificationFailed || !strings.Contains(e.NextStep(), "palyra journal verify") {
				t.Fatalf("open: %v", err)
			}
			var bad *journal.CorruptError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), fmt.Sprint(bad.Seq)) {
				t.Errorf("open names no sequence number: %v", err)
			}
		})
	}
}

func assertDamage(t *testing.T, what string, err error, seq int64) {
	t.Helper()
	var bad *journal.CorruptError
	switch {
	case seq == 0 && err != nil:
		t.Errorf("%s: %v, want no error", what, err)
	case seq != 0 && !errors.As(err, &bad):
		t.Errorf("%s: not detected: %v", what, err)
	case seq != 0 && bad.Seq != seq:
		t.Errorf("%s: names %d, want %d: %v", what, bad.Seq, seq, err)
	}
}

// TestCheckpointsNeedKeys: a store with checkpoints does not open without their verification
// keys, or with other keys.
func TestCheckpointsNeedKeys(t *testing.T) {
	t.Parallel()
	path, _ := damaged(t)
	_, others := sqlitetest.Key(t)
	for name, known := range map[string]note.Verifiers{"none": nil, "others": others} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
		assertDamage(t, name, err, 351)
	}
}

func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	db := sqlitetest.OpenAt(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{Now: func() time.Time { return now }})
	start := mustAppend(t, db, draft(1))
	now = now.Add(-time.Hour)
	for range 3 {
		if e := mustAppend(t, db, draft(2)); !e.At.Equal(start.At) {
			t.Errorf("time %v, want that of the event before", e.At)
		}
	}
	now = now.Add(2 * time.Hour)
	mustAppend(t, db, draft(3))
	now = now.Add(-time.Minute)
	mustAppend(t, db, draft(4))
	events, err := db.Events(t.Context(), journal.Filter{Code: string(event.ClockStepped)})
	if err != nil || len(events) != 2 || events[0].Seq != 2 {
		t.Fatalf("%d clock events, %v, want one per step back", len(events), err)
	}
	var p struct {
		Back int64 `json:"back_us"`
	}
	if err := json.Unmarshal(events[0].Payload, &p); err != nil || p.Back != time.Hour.Microseconds() {
		t.Errorf("payload %s, %v", events[0].Payload, err)
	}
	verifyWhole(t, db)
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Do(t, sqlite.NewResults(db).KeepsResults(t.Context()))
	for _, data := range [][]byte{nil, []byte("hello"), bytes.Repeat([]byte{7}, 3<<20)} {
		var digest string
		for range 2 {
			must.Get(db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) (err error) { digest, err = sqlite.PutBlob(db, tx, data); return err }}))(t)
		}
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); digest != want {
			t.Errorf("digest %s, want %s", digest, want)
		}
		if got, err := db.Blob(t.Context(), digest); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
		}
	}
	assertCount(t, db, "SELECT count(*) FROM results", 3)
	assertReason(t, blobError(db, "sha256:"+strings.Repeat("0", 64)), reason.NotFound)
	assertReason(t, blobError(db, "md5:00"), reason.InvalidInput)
	_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error {
		_, err := sqlite.PutBlob(db, tx, make([]byte, sqlite.MaxBlob+1))
		return err
	}})
	assertReason(t, err, reason.InputTooLarge)
	must.Do(t, sqlite.Exec(db, "UPDATE results SET box = x'00' WHERE length(box) = 45"))
	assertReason(t, blobError(db, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("hello")))), reason.VerificationFailed)
}

func blobError(db *sqlite.DB, digest string) error {
	_, err := db.Blob(context.Background(), digest)
	return err
}

func assertReason(t *testing.T, err error, want reason.Code) {
	t.Helper()
	if reason.Of(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
