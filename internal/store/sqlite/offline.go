package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/vault/atrest"
)

// OpenReadOnly opens an existing store for reading: with no daemon, or beside
// one. Nothing is verified, migrated or written; Commit refuses. Head is the
// one at the time of opening.
func OpenReadOnly(ctx context.Context, path string) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, openError(path, err)
	}
	version, err := storedVersion(path)
	if err != nil {
		return nil, unusable(path, err)
	}
	if version == 0 {
		return nil, reason.Errorf(reason.NotFound, "%s holds no journal", path).
			WithRemedy("Name the state directory of a palyrad that has run.")
	}
	list, err := listMigrations()
	if err != nil {
		return nil, err
	}
	pool, err := openReaders(path)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, pool: pool, log: journal.NewFeed(), older: version < list[len(list)-1].version}
	db.keys = atrest.New(nil, db, time.Now)
	if err := db.readStoredHead(ctx); err != nil {
		return nil, errors.Join(unusable(path, err), pool.Close())
	}
	return db, nil
}

// Snapshot copies what the store at path holds at one moment into a new file, with
// its head file beside it: with no daemon, or beside one, which goes on writing. The
// copy takes its form from SQLite and holds no deleted pages.
func Snapshot(ctx context.Context, path, into string) (err error) {
	if err := copyStore(ctx, path, into); err != nil {
		return fmt.Errorf("taking a snapshot of the store: %w", unusable(path, err))
	}
	db, err := OpenReadOnly(ctx, into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	noted, err := openHeadFile(into)
	if err != nil {
		return err
	}
	return errors.Join(noted.write(db.Head()), noted.close())
}

func copyStore(ctx context.Context, path, into string) error {
	conn, err := zs.OpenConn(path, zs.OpenReadOnly)
	if err != nil {
		return err
	}
	conn.SetBusyTimeout(busyTimeout)
	conn.SetInterrupt(ctx.Done())
	err = (&Conn{c: conn}).Query("VACUUM INTO ?1", nil, into)
	return contextError(ctx, errors.Join(err, conn.Close()))
}

// storedVersion returns the schema version of the file at path without
// changing it; 0 means that it holds nothing yet.
func storedVersion(path string) (int, error) {
	list, err := listMigrations()
	if err != nil {
		return 0, err
	}
	conn, err := zs.OpenConn(path, zs.OpenReadOnly)
	if err != nil {
		return 0, openError(path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	version, err := schemaVersion(conn, list[len(list)-1].version)
	if zs.ErrCode(err) == zs.ResultReadOnlyRollback {
		// The first start was cut off before the file was in WAL mode. What it
		// began only a writer can take back.
		version, err = 0, nil
	}
	return version, errors.Join(err, conn.Close())
}

// readStoredHead reads the newest event's head. Where damage is in the way, it
// names the first event that cannot be reached.
func (db *DB) readStoredHead(ctx context.Context) error {
	head, err := db.storedHead(ctx)
	if err == nil {
		db.log.Publish(head, nil)
		return nil
	}
	if !isDamage(err) {
		return err
	}
	var last int64
	scanErr := db.Scan(ctx, 0, math.MaxInt64, func(e *journal.Event) error {
		last = e.Seq
		return nil
	})
	var bad *journal.CorruptError
	if errors.As(scanErr, &bad) {
		return scanErr
	}
	return damagedFrom(last+1, err)
}

// Verify verifies the store at path without a daemon and without changing it:
// the whole journal as journal.VerifyAll does, against the checkpoints that
// the caller remembers and the head that the daemon noted beside it, the
// content of every blob, and the form of the file. Damage of the journal is a
// journal.CorruptError, of anything else reason.VerificationFailed.
func Verify(ctx context.Context, path, gateway string, known note.Verifiers, remembered ...journal.Checkpoint) (sum journal.Summary, err error) {
	noted, err := readHeadFile(path) // before the journal, which is never behind it
	if err != nil {
		return journal.Summary{}, err
	}
	db, err := OpenReadOnly(ctx, path)
	if reason.Of(err) == reason.NotFound && noted.Seq > 0 {
		return journal.Summary{}, missing(path, journal.Head{}, noted)
	}
	if err != nil {
		return journal.Summary{}, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	placed := placedSource{DB: db}
	if err := db.Read(ctx, func(c *Conn) (err error) { placed.covered, err = c.covered(); return err }); err != nil {
		return journal.Summary{}, err
	}
	if sum, err = journal.VerifyAll(ctx, placed, gateway, known, remembered...); err != nil {
		return sum, err
	}
	if err := db.holds(ctx, noted, sum.Signed.Size); err != nil {
		return sum, err
	}
	if err := db.verifyBlobs(ctx); err != nil {
		return sum, err
	}
	return sum, db.verifyForm(ctx)
}

// verifyForm has SQLite look at every page and row of the file. Whether each
// index fits its table would take three times as long as all the rest.
func (db *DB) verifyForm(ctx context.Context) error {
	return db.Read(ctx, func(c *Conn) error {
		return c.Query("PRAGMA quick_check(1)", func(r *Row) error {
			if found := r.Text(0); found != "ok" {
				return reason.Errorf(reason.VerificationFailed, "the journal verifies, and the file that holds it is damaged: %s", found).
					WithRemedy("Export the journal, keep the file, and restore a copy of the state directory that verifies.")
			}
			return nil
		})
	})
}

func (db *DB) verifyBlobs(ctx context.Context) error {
	return db.Read(ctx, func(c *Conn) error {
		err := c.Query("SELECT digest, data FROM blobs", func(r *Row) error {
			want, got := r.Bytes(0), sha256.Sum256(r.Bytes(1))
			if string(want) != string(got[:]) {
				return reason.Errorf(reason.VerificationFailed, "blob %s%s does not have the content of its digest", digestPrefix, hex.EncodeToString(want))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return c.verifyResults()
	})
}

// verifyResults looks at the form of what is sealed, for which no key is needed.
func (c *Conn) verifyResults() error {
	sealed, err := c.QueryRow("SELECT 1 FROM sqlite_schema WHERE name = 'results'", func(*Row) error { return nil })
	if err != nil || !sealed { // a store of before
		return err
	}
	const misshapen = `SELECT digest FROM results
 WHERE length(digest) <> 32 OR CASE WHEN expired_at IS NULL THEN length(box) < ?1 OR key NOT IN (SELECT id FROM results_keys) ELSE length(box) > 0 END`
	err = c.Query(misshapen, func(r *Row) error {
		return reason.Errorf(reason.VerificationFailed, "result %s%x is damaged: no key opens it", digestPrefix, r.Bytes(0))
	}, atrest.Overhead)
	if err != nil {
		return err
	}
	return c.verifySkillStorage()
}

// verifySkillStorage does the same for what guests of skills store.
func (c *Conn) verifySkillStorage() error {
	there, err := c.QueryRow("SELECT 1 FROM sqlite_schema WHERE name = 'skill_storage'", func(*Row) error { return nil })
	if err != nil || !there { // a store of before
		return err
	}
	const misshapen = `SELECT skill, user FROM skill_storage
 WHERE length(digest) <> 32 OR length(box) <> size - length(CAST(key AS BLOB)) + ?1 OR results_key NOT IN (SELECT id FROM results_keys)`
	return c.Query(misshapen, func(r *Row) error {
		return reason.Errorf(reason.VerificationFailed, "what the skill %s stored for %s is damaged: no key opens it", r.Text(0), r.Text(1))
	}, atrest.Overhead)
}
