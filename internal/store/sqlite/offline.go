package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite/walbatch"
	"palyra/internal/vault/atrest"
)

// OpenReadOnly opens an existing store for reading, with or without a running daemon. It verifies,
// migrates and writes nothing; Commit refuses. Head is the head at the time of opening.
func OpenReadOnly(ctx context.Context, path string) (*DB, error) {
	return openReading(ctx, path, path, zs.OpenReadOnly)
}

// OpenUnchanged is OpenReadOnly for a short look. It creates no files next to a store that no
// process has open, so that another user can look. Its reads fail if palyrad starts meanwhile.
func OpenUnchanged(ctx context.Context, path string) (*DB, error) {
	name, flags := unchanged(path)
	return openReading(ctx, path, name, flags)
}

func openReading(ctx context.Context, path, name string, flags zs.OpenFlags) (*DB, error) {
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
	pool, err := openReaders(name, flags)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, pool: pool, log: journal.NewFeed()}
	db.keys = atrest.New(nil, Results{db}, time.Now)
	if err := db.readStoredHead(ctx); err != nil {
		return nil, errors.Join(unusable(path, err), pool.Close())
	}
	return db, nil
}

// Snapshot copies the content of the store at path at one moment into a new file with its own head
// file. A running daemon may keep writing. SQLite writes the copy, which contains no deleted pages.
func Snapshot(ctx context.Context, path, into string) (err error) {
	if _, _, err := CheckSchema(path); err != nil {
		return err
	}
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

// storedVersion returns the schema version of the file at path without changing the file; 0 means
// that the file is still empty.
func storedVersion(path string) (int, error) {
	newest, err := newestSchema()
	if err != nil {
		return 0, err
	}
	name, flags := unchanged(path)
	conn, err := zs.OpenConn(name, flags)
	if err != nil {
		return 0, openError(path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	version, err := schemaVersion(conn, newest)
	if zs.ErrCode(err) == zs.ResultReadOnlyRollback {
		// The first start was interrupted before the file was in WAL mode. Only a writer can roll
		// it back.
		version, err = 0, nil
	}
	return version, errors.Join(err, conn.Close())
}

// unchanged returns the name and the flags with which the file at path is opened for reading.
// SQLite creates additional files for a database in WAL mode, even for a reader. A file that no
// process has open and that needs no recovery is therefore opened as immutable.
func unchanged(path string) (name string, flags zs.OpenFlags) {
	for _, beside := range []string{"-wal", "-journal"} {
		if _, err := os.Stat(path + beside); err == nil {
			return path, zs.OpenReadOnly
		}
	}
	return walbatch.FileURI(path, "immutable=1"), zs.OpenReadOnly | zs.OpenURI
}

// readStoredHead reads the newest event's head. If the file is damaged, the error contains the
// first event that cannot be read.
func (db *DB) readStoredHead(ctx context.Context) error {
	head, err := storedHead(ctx, db)
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

// Verify verifies the store at path without a daemon and without changing it. It checks the whole
// journal as journal.VerifyAll does, against the caller's remembered checkpoints and the head file;
// the content of every blob; and the form of the file. Damage of the journal is a
// journal.CorruptError, any other damage is reason.VerificationFailed.
func Verify(ctx context.Context, path, gateway string, known note.Verifiers, remembered ...journal.Checkpoint) (sum journal.Summary, err error) {
	noted, err := readHeadFile(path) // read before the journal, which is never behind it
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
	if err := db.Read(ctx, func(c *Conn) (err error) { placed.covered, err = eventRows{c}.covered(); return err }); err != nil {
		return journal.Summary{}, err
	}
	if sum, err = journal.VerifyAll(ctx, placed, gateway, known, remembered...); err != nil {
		return sum, err
	}
	if err := db.holds(ctx, noted, sum.Signed.Size); err != nil {
		return sum, err
	}
	if err := db.Read(ctx, (*Conn).verifyResults); err != nil {
		return sum, err
	}
	return sum, db.verifyForm(ctx)
}

// verifyForm checks every page and row of the file. Checking each index against its table would
// take three times as long as all other checks.
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

// verifyResults checks the form of sealed data, which needs no key.
func (c *Conn) verifyResults() error {
	const misshapen = `SELECT digest FROM results
 WHERE length(digest) <> 32 OR CASE WHEN expired_at IS NULL THEN length(box) < ?1 OR key NOT IN (SELECT id FROM results_keys) ELSE length(box) > 0 END`
	err := c.Query(misshapen, func(r *Row) error {
		return reason.Errorf(reason.VerificationFailed, "result %s%x is damaged: no key decrypts it", digestPrefix, r.Bytes(0))
	}, atrest.Overhead)
	if err != nil {
		return err
	}
	return c.verifySkillStorage()
}

// verifySkillStorage checks the form of the sealed data of skill guests.
func (c *Conn) verifySkillStorage() error {
	const misshapen = `SELECT skill, user FROM skill_storage
 WHERE length(digest) <> 32 OR length(box) <> size - length(CAST(key AS BLOB)) + ?1 OR results_key NOT IN (SELECT id FROM results_keys)`
	return c.Query(misshapen, func(r *Row) error {
		return reason.Errorf(reason.VerificationFailed, "the data of skill %s for %s is damaged: no key decrypts it", r.Text(0), r.Text(1))
	}, atrest.Overhead)
}
