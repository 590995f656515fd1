package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// killed returns a store in the state after SIGKILL: 100 events in the file with a checkpoint
// over 60 of them, 40 more in the WAL, and a head file that covers all.
func killed(t *testing.T) (path string, known note.Verifiers) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "palyra.db")
	signer, known := sqlitetest.Key(t)
	opts := sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin}
	db := must.Get(sqlite.Open(t.Context(), live, opts))(t)
	mustAppend(t, db, drafts(60)...)
	checkpointAll(t, db, signer)
	must.Do(t, db.Close(t.Context()))
	db = sqlitetest.OpenAt(t, live, opts)
	for n := range 39 {
		mustAppend(t, db, draft(n))
	}
	path = filepath.Join(t.TempDir(), "palyra.db")
	for _, suffix := range []string{"", "-wal", "-head"} {
		b := must.Get(os.ReadFile(live + suffix))(t)
		must.Do(t, os.WriteFile(path+suffix, b, 0o600))
	}
	return path, known
}

// TestLostWALIsNoticed: SQLite treats a truncated, damaged or missing WAL as one that ends
// there. The head file detects this, and nothing is changed.
func TestLostWALIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how func(wal []byte) []byte
		// first is the first lost sequence number, 0 if it depends on the damaged position, or -1 if
		// no event is lost.
		first int64
	}{
		"control":  {func(b []byte) []byte { return b }, -1},
		"gone":     {func([]byte) []byte { return nil }, 62},
		"half":     {func(b []byte) []byte { return b[:len(b)/2] }, 0},
		"end":      {func(b []byte) []byte { return b[:len(b)-1] }, 100},
		"header":   {func(b []byte) []byte { b[9] ^= 1; return b }, 62},
		"one byte": {func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, known := killed(t)
			wal := must.Get(os.ReadFile(path + "-wal"))(t)
			wal = c.how(wal)
			must.Do(t, os.WriteFile(path+"-wal", wal, 0o600))
			_, verified := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known)
			db, opened := sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
			if c.first < 0 {
				if verified != nil || opened != nil || db.Close(t.Context()) != nil {
					t.Errorf("an untouched store: %v, %v", verified, opened)
				}
				return
			}
			for what, err := range map[string]error{"verify": verified, "open": opened} {
				var bad *journal.CorruptError
				if !errors.As(err, &bad) || c.first > 0 && bad.Seq != c.first || bad.Seq < 62 || bad.Seq > 100 {
					t.Errorf("%s: %v, want the first missing event %d named", what, err, c.first)
				}
			}
			if left, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(left, wal) {
				t.Error("the refusal changed the WAL")
			}
		})
	}
}

// TestHeadFile damages the head file itself, or replaces the store next to it.
func TestHeadFile(t *testing.T) {
	t.Parallel()
	open := func(path string, known note.Verifiers) error {
		db, err := sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
		if err != nil {
			return err
		}
		return db.Close(t.Context())
	}
	for name, c := range map[string]struct {
		text string
		want reason.Code
	}{
		"power cut before it was written": {"", ""},
		"power cut while it was extended": {string(make([]byte, 100)), ""},
		"garbage":                         {"palyra-head v1 7 beef\n", reason.VerificationFailed},
		"hash of another event":           {"palyra-head v1 00000000000000000070 " + string(bytes.Repeat([]byte("0"), 64)) + "\n", reason.VerificationFailed},
	} {
		path, known := killed(t)
		must.Do(t, os.WriteFile(path+"-head", []byte(c.text), 0o600))
		if err := open(path, known); reason.Of(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	path, known := killed(t)
	must.Do(t, errors.Join(os.Remove(path), os.Remove(path+"-wal")))
	if err := open(path, known); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("a store that is gone: %v", err)
	}
	path, known = killed(t)
	must.Do(t, os.Remove(path+"-head"))
	if err := open(path, known); err != nil {
		t.Errorf("a store of a palyrad that wrote no head file: %v", err)
	}
}

// TestCommitsAreReported: each commit is reported with its contents.
func TestCommitsAreReported(t *testing.T) {
	t.Parallel()
	var told []sqlite.CommitInfo
	db := sqlitetest.OpenAt(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{
		Committed: func(c sqlite.CommitInfo) { told = append(told, c) },
	})
	draft := event.Draft{Code: event.Opened, Actor: journal.Daemon, Payload: []byte(`{}`)}
	must.Get(db.Commit(t.Context(), sqlite.Unit{Events: []event.Draft{draft, draft}}))(t)
	if len(told) == 0 {
		t.Fatal("no commit was told")
	}
	if c := told[len(told)-1]; c.Units != 1 || c.Events != 2 || c.Took <= 0 {
		t.Errorf("told %+v, want one unit with two events that took some time", c)
	}
	if l := db.Load(); l != (sqlite.Load{}) {
		t.Errorf("an idle store is busy: %+v", l)
	}
	err := db.Read(t.Context(), func(*sqlite.Conn) error {
		if l := db.Load(); l.Reading != 1 {
			t.Errorf("while somebody reads: %+v", l)
		}
		return nil
	})
	must.Check(t, err)
}
