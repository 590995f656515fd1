package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// waitQueued returns when every caller in the bubble waits: the leader for its check, and the
// other n for the next batch.
func waitQueued(t *testing.T, db *sqlite.DB, n int) {
	t.Helper()
	synctest.Wait()
	if got := sqlite.Queued(db); got != n {
		t.Fatalf("%d units wait for a batch, want %d", got, n)
	}
}

// fillDisk limits the growth of the file to a few pages, like a full disk; room removes the
// limit.
func fillDisk(t *testing.T, db *sqlite.DB) (room func()) {
	t.Helper()
	limit := func(pages string) {
		t.Helper()
		must.Do(t, sqlite.WriterPragma(db, "PRAGMA max_page_count = "+pages))
	}
	limit("1") // SQLite raises it to the current size
	return func() { limit("1073741823") }
}

func TestFullDiskFailsAndRecovers(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	big := event.Draft{Code: event.Attested, Actor: journal.Daemon, Payload: []byte(`{"pad":"` + string(make20k()) + `"}`)}
	mustAppend(t, db, draft(1))
	room := fillDisk(t, db)
	var err error
	for range 50 {
		if _, err = db.Append(t.Context(), big); err != nil {
			break
		}
	}
	if reason.Of(err) != reason.JournalUnavailable {
		t.Fatalf("full disk: %v, want %s", err, reason.JournalUnavailable)
	}
	head := db.Head()
	if reason.Of(db.Healthy()) != reason.JournalUnavailable {
		t.Errorf("healthy after a failed commit: %v", db.Healthy())
	}
	// Even a small event is refused while the disk is full.
	if _, err := db.Append(t.Context(), draft(2)); reason.Of(err) != reason.JournalUnavailable {
		t.Errorf("a commit in the failed state: %v", err)
	}
	if db.Probe() == nil || db.Head() != head {
		t.Errorf("the probe did not notice the full disk, or the head moved to %+v", db.Head())
	}
	room()
	if err := db.Probe(); err != nil {
		t.Fatalf("probe with room: %v", err)
	}
	if err := db.Healthy(); err != nil {
		t.Errorf("healthy after a good probe: %v", err)
	}
	if e := mustAppend(t, db, big); e.Seq != head.Seq+1 || e.PrevHash != head.Hash {
		t.Errorf("the chain goes on at %d after %d", e.Seq, head.Seq)
	}
	verifyWhole(t, db)
}

func TestCommitRecoversByItself(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Do(t, sqlite.NewResults(db).KeepsResults(t.Context()))
	room := fillDisk(t, db)
	u := sqlite.Unit{Check: func(tx *sqlite.Tx) error { _, err := sqlite.PutBlob(db, tx, make20k()); return err }}
	if _, err := db.Commit(t.Context(), u); reason.Of(err) != reason.JournalUnavailable {
		t.Fatalf("full disk in a check: %v", err)
	}
	room()
	if _, err := db.Commit(t.Context(), u); err != nil {
		t.Fatalf("the next commit probes and goes on: %v", err)
	}
}

// TestSwallowedStorageErrorStillFails: a check that ignores a storage error must not commit a
// part of its writes.
func TestSwallowedStorageErrorStillFails(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Do(t, sqlite.NewResults(db).KeepsResults(t.Context()))
	fillDisk(t, db)
	_, err := db.Commit(t.Context(), sqlite.Unit{
		Check:  func(tx *sqlite.Tx) error { _, _ = sqlite.PutBlob(db, tx, make20k()); return nil },
		Events: []event.Draft{draft(1)},
	})
	if reason.Of(err) != reason.JournalUnavailable || db.Head().Seq != 0 {
		t.Errorf("got %v, head %d", err, db.Head().Seq)
	}
}

// TestFailedBatchFailsEveryUnit: a disk error of one unit fails the batch, and none of its
// units is acknowledged.
func TestFailedBatchFailsEveryUnit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, failedBatchFailsEveryUnit)
}

func failedBatchFailsEveryUnit(t *testing.T) {
	db := sqlitetest.Open(t)
	must.Do(t, sqlite.NewResults(db).KeepsResults(t.Context()))
	hold, held := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = db.Commit(context.Background(), sqlite.Unit{Check: func(*sqlite.Tx) error { close(held); <-hold; return nil }})
	}()
	<-held // the leader is busy, so later units form one batch
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			u := sqlite.Unit{Events: []event.Draft{draft(i)}}
			if i == 5 {
				u.Check = func(tx *sqlite.Tx) error {
					_, err := tx.Exec("PRAGMA max_page_count = 1")
					_, err2 := sqlite.PutBlob(db, tx, make20k())
					return errors.Join(err, err2)
				}
			}
			if _, err := db.Commit(context.Background(), u); reason.Of(err) == reason.JournalUnavailable {
				failed.Add(1)
			}
		})
	}
	waitQueued(t, db, 8)
	close(hold)
	wg.Wait()
	if failed.Load() != 8 || db.Head().Seq != 0 {
		t.Errorf("%d of 8 units failed, head %d", failed.Load(), db.Head().Seq)
	}
}

// TestNothingIsVisibleBeforeItIsDurable: during a batch, neither the head, nor readers, nor
// followers see an event that another unit of the batch has already written.
func TestNothingIsVisibleBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, nothingIsVisibleBeforeItIsDurable)
}

func nothingIsVisibleBeforeItIsDurable(t *testing.T) {
	db := sqlitetest.Open(t)
	hold, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = db.Commit(context.Background(), sqlite.Unit{Check: func(*sqlite.Tx) error { close(held); <-hold; return nil }})
	})
	<-held
	wg.Go(func() { mustAppend(t, db, draft(1)) })
	waitQueued(t, db, 1)
	var inside, head, visible int64
	woken := true
	wg.Go(func() {
		_, err := db.Commit(context.Background(), sqlite.Unit{Check: func(tx *sqlite.Tx) error {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			woken = db.Wait(ended, 0) == nil
			head = db.Head().Seq
			count := func(n *int64) func(*sqlite.Row) error {
				return func(r *sqlite.Row) error { *n = r.Int64(0); return nil }
			}
			const query = "SELECT count(*) FROM events"
			return errors.Join(tx.Query(query, count(&inside)),
				db.Read(context.Background(), func(c *sqlite.Conn) error { return c.Query(query, count(&visible)) }))
		}})
		must.Check(t, err)
	})
	waitQueued(t, db, 2)
	close(hold)
	wg.Wait()
	if inside != 1 {
		t.Fatalf("the two units were not one batch: the second saw %d events inside", inside)
	}
	if head != 0 || visible != 0 || woken {
		t.Errorf("before the commit: head %d, %d events visible, followers woken %v", head, visible, woken)
	}
	if db.Head().Seq != 1 || db.Wait(t.Context(), 0) != nil {
		t.Error("after the commit the event is not visible")
	}
}

func TestCancelledBeforeItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, cancelledBeforeItsBatch)
}

func cancelledBeforeItsBatch(t *testing.T) {
	db := sqlitetest.Open(t)
	hold, held := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := db.Commit(context.Background(), sqlite.Unit{Check: func(*sqlite.Tx) error { close(held); <-hold; return nil }})
		first <- err
	}()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := db.Commit(ctx, sqlite.Unit{Events: []event.Draft{draft(1)}})
		second <- err
	}()
	waitQueued(t, db, 1)
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	close(hold)
	must.Check(t, <-first)
	mustAppend(t, db, draft(2))
	if db.Head().Seq != 1 {
		t.Errorf("head %d: the withdrawn unit was committed", db.Head().Seq)
	}
}

// TestCrashLosesNothingAcknowledged copies the database and the WAL at many moments while 8
// callers commit, as a power failure would leave them. Each opened copy contains every event
// that was acknowledged before the copy, with an intact chain.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	signer, known := sqlitetest.Key(t)
	db := sqlitetest.OpenAt(t, path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
	var acknowledged atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() { commitUntil(t, db, c, stop, &acknowledged) })
	}
	for range 8 {
		checkpointAll(t, db, signer)
		before := acknowledged.Load()
		assertSurvives(t, crashCopy(t, path), before, known)
	}
	close(stop)
	wg.Wait()
}

func commitUntil(t *testing.T, db *sqlite.DB, c int, stop <-chan struct{}, acknowledged *atomic.Int64) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		events, err := db.Append(context.Background(), draft(c*100000+n))
		if err != nil {
			t.Error(err)
			return
		}
		for seq := events[0].Seq; ; {
			old := acknowledged.Load()
			if old >= seq || acknowledged.CompareAndSwap(old, seq) {
				break
			}
		}
	}
}

func checkpointAll(t *testing.T, db *sqlite.DB, signer note.Signer) {
	t.Helper()
	size := db.Head().Seq
	must.Do(t, db.Tree(t.Context(), size, func(tree *journal.Tree) error {
		root, err := tree.Root()
		if err != nil {
			return err
		}
		cp, err := journal.SignCheckpoint(signer, size, root)
		if err != nil {
			return err
		}
		_, err = db.Append(t.Context(), checkpointDraft(t, cp))
		return err
	}))
}

// crashCopy copies the WAL first. A checkpoint in between then leaves a database that is newer
// than the WAL, never one that lacks its frames.
func crashCopy(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "palyra.db")
	for _, suffix := range []string{"-wal", ""} {
		b := must.Get(os.ReadFile(path + suffix))(t)
		must.Do(t, os.WriteFile(to+suffix, b, 0o600))
	}
	return to
}

func assertSurvives(t *testing.T, path string, acknowledged int64, known note.Verifiers) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin})
	if err != nil {
		t.Fatalf("opening after the crash: %v", err)
	}
	if db.Head().Seq < acknowledged {
		t.Errorf("event %d was acknowledged, after the crash the journal ends at %d", acknowledged, db.Head().Seq)
	}
	mustAppend(t, db, draft(1))
	must.Do(t, db.Close(t.Context()))
	if _, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known); err != nil {
		t.Errorf("after the crash: %v", err)
	}
}
