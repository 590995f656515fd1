package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/run"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/retention"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault"
	"palyra/internal/vault/atrest/atresttest"
)

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func keep(t *testing.T, db *sqlite.DB, data ...[]byte) {
	t.Helper()
	must.Get(sqlite.NewCalls(db).Record(t.Context(), call.Entry{Blobs: data}))(t)
}

// marker returns a text that no file contains by chance.
func marker(n int) []byte { return fmt.Appendf(nil, "PLAIN-%032d-TEXT", n) }

func exampleApproval(n int, state approval.State) approval.Record {
	secret := `{"content":"` + string(marker(1000+n)) + `"}`
	rec := approval.Record{
		ID: fmt.Sprintf("01JAAAAAAAAAAAAAAAAAA%05d", n), State: state, Version: 1, Revision: int64(n + 1), SubjectType: approval.SubjectTool,
		CreatedAt: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		Prompt:    approval.Prompt{Title: "Write a file", Summary: "one file", Arguments: []byte(secret), Diff: "+" + string(marker(2000+n))},
		Binding:   tool.Binding{Tool: "fs.write", Arguments: []byte(secret), Argv: []string{string(marker(3000 + n))}},
	}
	if !state.Terminal() {
		rec.Request = []byte(`{"args":"` + string(marker(4000+n)) + `"}`)
	}
	return rec
}

// plainIn counts the markers in the raw bytes of the store's files.
func plainIn(t *testing.T, path string) (n int) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n += bytes.Count(raw, []byte("PLAIN-"))
	}
	return n
}

// TestResultsAreSealedInTheFile searches the raw bytes of the files for stored texts, large and
// small, also while they are only in the WAL. Control: an unsealed row, which is found.
func TestResultsAreSealedInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	must.Do(t, sqlite.Exec(db, "INSERT INTO probe (id, pad) VALUES (1000, ?1)", marker(1)))
	if n := plainIn(t, path); n == 0 {
		t.Fatal("the control: a plain row is not found in the files")
	}
	must.Do(t, sqlite.Exec(db, "DELETE FROM probe WHERE id = 1000"))
	if !must.Get(sqlite.NewResults(db).Scrub())(t) {
		t.Fatal("the WAL was not emptied")
	}
	contents := [][]byte{marker(77), bytes.Repeat(marker(78), 5000)}
	keep(t, db, contents...)
	rec := exampleApproval(7, approval.Pending)
	approvals := sqlite.NewApprovals(db)
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error { return tx.InsertRecord(&rec) }))
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error {
		now := must.Get(tx.Record(rec.ID))(t)
		now.State, now.Version, now.Request = approval.Denied, 2, nil
		return tx.ReplaceRecord(&now, approval.Pending, 1)
	}))
	if n := plainIn(t, path); n != 0 {
		t.Errorf("%d markers are in the files", n)
	}
	for _, data := range contents {
		if got, err := db.Blob(t.Context(), digestOf(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d came back, %v", len(got), len(data), err)
		}
	}
	now := must.Get(approvals.Record(t.Context(), rec.ID))(t)
	if now.State != approval.Denied || now.Request != nil || now.Prompt.Diff != rec.Prompt.Diff || now.Binding.Argv[0] != rec.Binding.Argv[0] {
		t.Errorf("the changed approval: %+v", now)
	}
}

func assertWhole(t *testing.T, db *sqlite.DB, want approval.Record) {
	t.Helper()
	got, err := sqlite.NewApprovals(db).Record(t.Context(), want.ID)
	if err != nil || got.Withheld != nil || got.State != want.State || got.Prompt.Diff != want.Prompt.Diff || got.Binding.Argv[0] != want.Binding.Argv[0] || string(got.Request) != string(want.Request) {
		t.Errorf("approval %s: %+v, %v", want.ID, got, err)
	}
}

// TestSwappedAndDamagedResults: a row that was moved or changed is refused with the reason, and
// the others remain readable.
func TestSwappedAndDamagedResults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	a, b, c := marker(1), marker(2), marker(3)
	keep(t, db, a, b, c)
	x, y := exampleApproval(1, approval.Pending), exampleApproval(2, approval.Pending)
	approvals := sqlite.NewApprovals(db)
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error {
		if err := tx.InsertRecord(&x); err != nil {
			return err
		}
		return tx.InsertRecord(&y)
	}))
	sumA, sumB := sha256.Sum256(a), sha256.Sum256(b)
	must.Do(t, sqlite.Exec(db, "UPDATE results SET box = (SELECT box FROM results WHERE digest = ?2) WHERE digest = ?1", sumA[:], sumB[:]))
	assertReason(t, blobError(db, digestOf(a)), reason.VerificationFailed)
	for _, data := range [][]byte{b, c} {
		must.Get(db.Blob(t.Context(), digestOf(data)))(t)
	}
	must.Do(t, sqlite.Exec(db, "UPDATE results SET key = '01JZZZZZZZZZZZZZZZZZZZZZZZ' WHERE digest = ?1", sumB[:]))
	assertReason(t, blobError(db, digestOf(b)), reason.VerificationFailed)

	must.Do(t, sqlite.Exec(db, `UPDATE approvals SET (payload, payload_digest) = (SELECT payload, payload_digest FROM approvals WHERE id = ?2) WHERE id = ?1`, x.ID, y.ID))
	page, _, err := approvals.Records(t.Context(), approval.Filter{})
	if err != nil || len(page) != 2 {
		t.Fatalf("%d records, %v", len(page), err)
	}
	for _, rec := range page {
		if want := rec.ID == x.ID; (reason.Of(rec.Withheld) == reason.VerificationFailed) != want || (rec.Prompt.Diff == "") != want {
			t.Errorf("approval %s: withheld %v, diff %q", rec.ID, rec.Withheld, rec.Prompt.Diff)
		}
	}
	// Offline, without a key, the form is verified.
	must.Do(t, db.Close(t.Context()))
	_, err = sqlite.Verify(t.Context(), path, sqlitetest.Origin, nil)
	assertReason(t, err, reason.VerificationFailed)
}

// TestLockedResults: with a locked vault, the store opens and verifies, refuses new results,
// and reads the unsealed data. Once the vault is unlocked, all data is readable.
func TestLockedResults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	data := marker(1)
	keep(t, db, data)
	rec := exampleApproval(1, approval.Pending)
	must.Do(t, sqlite.NewApprovals(db).Update(t.Context(), func(tx approval.Tx) error { return tx.InsertRecord(&rec) }))
	mustAppend(t, db, drafts(20)...)
	must.Do(t, db.Close(t.Context()))

	ring := &atresttest.Ring{}
	ring.Locked.Store(true)
	now := time.Now()
	db = sqlitetest.OpenAt(t, path, sqlite.Options{Results: ring, Now: func() time.Time { return now }})
	approvals := sqlite.NewApprovals(db)
	verifyWhole(t, db)
	mustAppend(t, db, draft(1))
	assertReason(t, blobError(db, digestOf(data)), reason.VaultLocked)
	_, err := sqlite.NewCalls(db).Record(t.Context(), call.Entry{Drafts: drafts(1), Blobs: [][]byte{marker(2)}})
	assertReason(t, err, reason.VaultLocked)
	_, _, err = sqlite.NewRuns(db).Begin(t.Context(), run.Beginning{})
	assertReason(t, err, reason.VaultLocked)
	fresh := exampleApproval(2, approval.Pending)
	assertReason(t, approvals.Update(t.Context(), func(tx approval.Tx) error { return tx.InsertRecord(&fresh) }), reason.VaultLocked)
	about := exampleApproval(3, approval.Pending)
	about.SubjectType = approval.SubjectGatewayChange // data that operators need is not a result
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error { return tx.InsertRecord(&about) }))
	assertWhole(t, db, about)

	page := must.Get(approvals.Changes(t.Context(), 0, 10))(t)
	if len(page) != 2 || reason.Of(page[0].Withheld) != reason.VaultLocked || page[0].Prompt.Title != rec.Prompt.Title || page[0].Prompt.Diff != "" || !strings.Contains(page[0].Prompt.Notes[0], "VAULT_LOCKED") {
		t.Errorf("a page while it is locked: %+v", page)
	}
	// A record can also expire while the vault is locked; its other fields are unchanged.
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error {
		now := must.Get(tx.Record(rec.ID))(t)
		now.State, now.Version, now.Request = approval.Expired, 2, nil
		return tx.ReplaceRecord(&now, approval.Pending, 1)
	}))

	ring.Locked.Store(false)
	now = now.Add(2 * time.Second)
	if got, err := db.Blob(t.Context(), digestOf(data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after the unlock: %q, %v", got, err)
	}
	rec.State, rec.Request = approval.Expired, nil
	assertWhole(t, db, rec)
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error { return tx.InsertRecord(&fresh) }))
}

// TestRetention: bytes are removed and digests remain. A text that is stored again is readable
// again, and open approvals keep the data that they need.
func TestRetention(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := sqlitetest.OpenAt(t, path, sqlite.Options{Now: func() time.Time { return now }})
	old, again := marker(1), marker(2)
	keep(t, db, old, again)
	open, closed := exampleApproval(1, approval.Pending), exampleApproval(2, approval.Denied)
	approvals := sqlite.NewApprovals(db)
	must.Do(t, approvals.Update(t.Context(), func(tx approval.Tx) error {
		if err := tx.InsertRecord(&open); err != nil {
			return err
		}
		return tx.InsertRecord(&closed)
	}))
	now = now.Add(48 * time.Hour)
	fresh := marker(3)
	keep(t, db, fresh, again) // stored again: its retention starts again

	before := now.Add(-24 * time.Hour)
	for must.Get(sqlite.NewResults(db).ExpireResults(t.Context(), before))(t) {
	}
	assertReason(t, blobError(db, digestOf(old)), reason.ResultExpired)
	for _, data := range [][]byte{fresh, again} {
		must.Get(db.Blob(t.Context(), digestOf(data)))(t)
	}
	sum := sha256.Sum256(old)
	assertCount(t, db, fmt.Sprintf("SELECT count(*) FROM results WHERE digest = x'%x' AND length(box) = 0", sum), 1)
	assertWhole(t, db, open)
	if rec := must.Get(approvals.Record(t.Context(), closed.ID))(t); reason.Of(rec.Withheld) != reason.ResultExpired || rec.State != approval.Denied {
		t.Errorf("a closed approval: %+v", rec)
	}
	keep(t, db, old)
	must.Get(db.Blob(t.Context(), digestOf(old)))(t)
	must.Do(t, db.Close(t.Context()))
	if _, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, nil); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// TestBackgroundRetention runs the background work by its clock: with a locked vault, then on
// the rows of an older palyrad, and then on expired results.
func TestBackgroundRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "palyra.db")
		ring := &atresttest.Ring{}
		db := sqlitetest.OpenAt(t, path, sqlite.Options{Results: ring})
		contents := [][]byte{marker(1), marker(2)}
		keep(t, db, contents...)
		must.Do(t, db.Close(t.Context()))
		ring.Locked.Store(true)
		db = sqlitetest.OpenAt(t, path, sqlite.Options{Results: ring})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- retention.Run(ctx, retention.Config{Store: sqlite.NewResults(db), Retention: 24 * time.Hour, Log: slog.New(slog.DiscardHandler)})
		}()
		time.Sleep(48 * time.Hour)
		assertCount(t, db, "SELECT count(*) FROM results WHERE expired_at IS NULL", 2)
		ring.Locked.Store(false)
		time.Sleep(3 * time.Hour)
		assertReason(t, blobError(db, digestOf(contents[0])), reason.ResultExpired)
		stop()
		must.Do(t, <-done)
	})
}

// TestRewrap replaces the vault key that wraps a results key, once.
func TestRewrap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{Results: &atresttest.Ring{Key: "old"}})
	keep(t, db, marker(1))
	keys := sqlite.NewResults(db)
	list := must.Get(keys.StaleBoxes(t.Context(), "new", vault.Box{}, 9))(t)
	if len(list) != 1 || list[0].KEK != "old" || !strings.HasPrefix(list[0].About, "results/") {
		t.Fatalf("got %+v", list)
	}
	was, next := list[0], &atresttest.Ring{Key: "new"}
	if rest := must.Get(keys.StaleBoxes(t.Context(), "new", was, 9))(t); len(rest) != 0 {
		t.Errorf("after the last: %+v", rest)
	}
	secret := must.Get(next.Unwrap(t.Context(), was.About, was.KEK, bytes.Clone(was.Key)))(t)
	fresh := was
	must.Do(t, next.Wrap(t.Context(), was.About, secret, func(by string, box []byte) error {
		fresh.KEK, fresh.Key = by, box
		return nil
	}))
	must.Do(t, keys.ReplaceBoxes(t.Context(), []vault.Box{was}, []vault.Box{fresh}))
	late := fresh
	late.KEK = "late"
	must.Do(t, keys.ReplaceBoxes(t.Context(), []vault.Box{was}, []vault.Box{late})) // a replaced box is not overwritten
	if list := must.Get(keys.StaleBoxes(t.Context(), "new", vault.Box{}, 9))(t); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
	must.Do(t, db.Close(t.Context()))
	db = sqlitetest.OpenAt(t, path, sqlite.Options{Results: next})
	must.Get(db.Blob(t.Context(), digestOf(marker(1))))(t)
}
