// Package sqlite is the embedded store: one SQLite file in WAL mode with
// synchronous=FULL that holds the journal and the tables of other packages. One
// connection writes. Its work comes in units; the units that wait at the same time
// are written in one transaction and made durable by one COMMIT (group commit).
// Read-only connections read snapshots at the same time.
//
// A call writes few pages, because each costs processor and disk time. The envelope of an
// attestation is in its event only. The session of a call is first a row of recent_calls, and 64
// rows move together to the table with three indexes. Events are found by code and actor through
// event_places, one row for each tile of 256 events; an index on events would cost each append two
// pages.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite/walbatch"
	"palyra/internal/vault/atrest"
)

// applicationID marks the file as Palyra's: "PALY".
const applicationID = 0x50414c59

const (
	readers = 4
	// busyTimeout bounds the wait for a lock that another process holds.
	busyTimeout = 5 * time.Second
)

// Options configure Open. The zero value is usable for a new file; a file with checkpoints
// requires Verifiers.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Origin is the gateway's id, the origin line of its checkpoints.
	Origin string
	// Verifiers hold the present and past keys that signed checkpoints.
	Verifiers note.Verifiers
	// Committed, if set, is called after every commit. Calls are sequential and delay the next
	// commit, so Committed MUST NOT block.
	Committed func(c CommitInfo)
	// Wrote, if set, is called for every committed unit. It MUST NOT block.
	Wrote func(Written)
	// Reserve configures the disk space reserved for operators; the zero value reserves none.
	Reserve ReserveOptions
	// Results wraps the keys of stored results. If it is nil, results can be neither stored nor
	// read until UseVault.
	Results atrest.Ring
}

// CommitInfo describes one commit of the writer.
type CommitInfo struct {
	// Units and Events are the numbers of units and events in the commit.
	Units, Events int
	// Took is the duration of the COMMIT alone, which is mostly the disk's sync.
	Took time.Duration
}

// Load describes how busy a store is.
type Load struct {
	// Queued is the number of units that wait for a commit, Reading the number of readers in use.
	Queued, Reading int
}

// Load returns how busy the store is now.
func (db *DB) Load() Load {
	l := Load{Reading: int(db.reading.Load())}
	if db.writer != nil {
		l.Queued = db.writer.queue.size()
	}
	return l
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	path   string
	pool   *sqlitex.Pool
	writer *writer // nil when opened read-only
	log    *journal.Feed
	keys   *atrest.Keys
	closed atomic.Bool
	// reading counts the readers in use.
	reading atomic.Int64
}

// Open opens the store at path and creates it with mode 0600 if it does not exist. It verifies the
// journal from its last checkpoint before it writes anything, and then applies missing migrations.
// It repairs nothing. Errors that an operator can act on are reason.Error; a journal that fails
// verification is a journal.CorruptError.
func Open(ctx context.Context, path string, opts Options) (*DB, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	db := &DB{path: path, log: journal.NewFeed()}
	db.keys = atrest.New(opts.Results, Results{db}, opts.Now)
	if err := db.inspect(ctx, opts); err != nil {
		return nil, errors.Join(unusable(path, err), db.closeFiles())
	}
	if err := db.openForWriting(opts); err != nil {
		return nil, errors.Join(unusable(path, err), db.closeFiles())
	}
	return db, nil
}

// inspect reads the store through connections that cannot change it. A refused store, including its
// WAL, keeps every byte. A file without a schema is an empty store.
func (db *DB) inspect(ctx context.Context, opts Options) error {
	// The head file is read before the journal, so that it cannot be ahead of the journal.
	noted, err := readHeadFile(db.path)
	if err != nil {
		return err
	}
	version, err := storedVersion(db.path)
	if err != nil {
		return err
	}
	if version == 0 {
		return refuse(db.path, db.holds(ctx, noted, 0))
	}
	if db.pool, err = openReaders(db.path, zs.OpenReadOnly); err != nil {
		return err
	}
	if err := db.readStoredHead(ctx); err != nil {
		return refuse(db.path, err)
	}
	if err := journal.VerifyTail(ctx, db, opts.Origin, opts.Verifiers); err != nil {
		return refuse(db.path, err)
	}
	signed, err := signedSize(ctx, db)
	if err != nil {
		return err
	}
	return refuse(db.path, db.holds(ctx, noted, signed))
}

// openForWriting migrates the schema and loads the end of the journal.
func (db *DB) openForWriting(opts Options) error {
	spare, err := openReserve(db.path, opts.Reserve)
	if err != nil {
		return err
	}
	conn, err := openWriter(db.path)
	if err != nil {
		return errors.Join(err, spare.close())
	}
	db.writer = newWriter(conn, opts, db.log)
	db.writer.reserve = spare
	if err := migrate(conn); err != nil {
		return err
	}
	if db.pool == nil {
		if db.pool, err = openReaders(db.path, zs.OpenReadOnly); err != nil {
			return err
		}
	}
	if err := db.writer.load(); err != nil {
		return refuse(db.path, err)
	}
	if db.writer.noted, err = openHeadFile(db.path); err != nil {
		return err
	}
	if err := db.writer.noted.write(db.writer.end.head); err != nil {
		return openError(headPath(db.path), err)
	}
	return nil
}

// closeFiles closes the open files. The writer is closed last, so that SQLite moves the WAL into
// the file and deletes it.
func (db *DB) closeFiles() (err error) {
	if db.pool != nil {
		err = db.pool.Close()
	}
	if db.writer != nil {
		err = errors.Join(err, db.writer.close())
	}
	db.keys.Close()
	return err
}

// refuse adds the operator's next step to the error of a journal that fails verification.
func refuse(path string, err error) error {
	if err == nil {
		return nil
	}
	var bad *journal.CorruptError
	if !errors.As(err, &bad) {
		return fmt.Errorf("verifying the journal: %w", err)
	}
	return reason.Errorf(reason.VerificationFailed, "verifying the journal in %s: %w", path, err).
		WithRemedy("Nothing was changed. Run `palyra journal verify %s`, keep the files, and restore a copy that verifies.", filepath.Dir(path)).
		WithField("seq", fmt.Sprint(bad.Seq))
}

// Path returns the file's path.
func (db *DB) Path() string { return db.path }

// Commit runs the unit and returns its events once they are durable. The first caller commits for
// all waiting callers. An error of Check is returned unchanged, and nothing of the unit is stored.
// reason.JournalUnavailable means that nothing of the whole batch was acknowledged. A caller whose
// context ends before its unit starts gets the context's error; after that Commit waits, because
// the outcome must be known.
func (db *DB) Commit(ctx context.Context, u Unit) ([]journal.Event, error) {
	if db.writer == nil {
		return nil, reason.Errorf(reason.JournalUnavailable, "the store was opened for reading only")
	}
	return db.writer.commit(ctx, u)
}

// Read calls fn with a read-only connection that reads one snapshot. It waits for a free
// connection; readers never block the writer.
func (db *DB) Read(ctx context.Context, fn func(*Conn) error) error {
	db.reading.Add(1)
	defer db.reading.Add(-1)
	err := read(ctx, db.pool, fn)
	if isDamage(err) && reason.Of(err) == reason.Internal {
		return reason.Errorf(reason.VerificationFailed, "the store is damaged: %w", err).
			WithRemedy("Stop palyrad, run `palyra journal verify STATE_DIR`, keep the files, and restore a copy that verifies.")
	}
	return err
}

func read(ctx context.Context, pool *sqlitex.Pool, fn func(*Conn) error) (err error) {
	c, err := pool.Take(ctx)
	if err != nil {
		return contextError(ctx, withFiles(err))
	}
	defer pool.Put(c)
	conn := &Conn{c: c}
	if err := conn.Query("BEGIN", nil); err != nil {
		return contextError(ctx, err)
	}
	defer func() {
		c.SetInterrupt(nil) // an ended context must not keep the snapshot open
		err = contextError(ctx, errors.Join(err, conn.Query("ROLLBACK", nil)))
	}()
	return fn(conn)
}

// contextError returns ctx's error instead of err if the end of ctx interrupted a query.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && zs.ErrCode(err) == zs.ResultInterrupt {
		return ctx.Err()
	}
	return err
}

// Healthy returns nil, or the reason.JournalUnavailable error of the last failed commit. Only a
// successful write clears that error: the next Commit or Probe attempts one. Healthy also returns
// an error when the last measurement found the disk nearly full, since new work is then refused.
func (db *DB) Healthy() error {
	if db.writer == nil {
		return nil
	}
	return db.writer.healthy()
}

// Probe attempts a write if the last commit failed, which clears the error on success, and measures
// the disk. It does not write to a healthy store. It returns the result of Healthy.
func (db *DB) Probe() error {
	if db.writer == nil {
		return nil
	}
	return db.writer.recover()
}

// Close waits for the units in progress, refuses later units with reason.ShuttingDown,
// interrupts readers and closes the file. When ctx ends before the writer is idle it returns
// ctx's error and can be called again.
func (db *DB) Close(ctx context.Context) error {
	if db.writer != nil {
		if err := db.writer.queue.drain(ctx); err != nil {
			return err
		}
	}
	if db.closed.Swap(true) {
		return nil
	}
	db.log.Close()
	return db.closeFiles()
}

func prepareFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return openError(path, err)
	}
	// The WAL and shared memory files take the mode of the database file.
	return errors.Join(f.Chmod(0o600), f.Close())
}

func openError(path string, err error) error {
	e := reason.Errorf(reason.JournalUnavailable, "opening journal: %w", withFiles(err))
	if errors.Is(err, fs.ErrPermission) {
		return e.WithRemedy("Give the user that palyrad runs as read and write access to %s.", path)
	}
	return e.WithRemedy("Check that the directory of %s exists and its disk is not full or read-only.", path)
}

// unusable adds the operator's next step to the error of a file that SQLite cannot use.
func unusable(path string, err error) error {
	switch {
	case reason.Of(err) != reason.Internal:
		return err
	case isDamage(err):
		return reason.Errorf(reason.VerificationFailed, "%s is damaged: %w", path, err).
			WithRemedy("Nothing was changed. Keep the files, and restore a copy of the state directory that verifies.")
	case isStorageError(err):
		return openError(path, err)
	}
	return err
}

func openWriter(path string) (*zs.Conn, error) {
	uri, err := walbatch.URI(path)
	if err != nil {
		return nil, openError(path, err)
	}
	conn, err := zs.OpenConn(uri, zs.OpenReadWrite|zs.OpenURI)
	if err != nil {
		return nil, openError(path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	for _, pragma := range []string{
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",
		"PRAGMA foreign_keys = ON",
		"PRAGMA trusted_schema = OFF",
		"PRAGMA secure_delete = ON",  // sealed or expired data must not remain in the file
		"PRAGMA cache_size = -16000", // KiB
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpointPages),
		"PRAGMA journal_size_limit = 67108864",
	} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return nil, errors.Join(openError(path, err), conn.Close())
		}
	}
	return conn, nil
}

func openReaders(name string, flags zs.OpenFlags) (*sqlitex.Pool, error) {
	pool, err := sqlitex.NewPool(name, sqlitex.PoolOptions{
		Flags: flags, PoolSize: readers,
		PrepareConn: func(c *zs.Conn) error {
			c.SetBusyTimeout(busyTimeout)
			return sqlitex.ExecuteScript(c, "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -4000;", nil)
		},
	})
	if err != nil {
		return nil, openError(name, err)
	}
	return pool, nil
}

// isDamage reports whether err means that the file content is damaged.
func isDamage(err error) bool {
	switch zs.ErrCode(err).ToPrimary() {
	case zs.ResultCorrupt, zs.ResultNotADB:
		return true
	}
	return false
}

// damagedFrom returns an error with the first event that cannot be read because the file is
// damaged.
func damagedFrom(seq int64, err error) error {
	if !isDamage(err) {
		return err
	}
	return &journal.CorruptError{Seq: seq, What: "the store's file is damaged: " + err.Error()}
}

// isStorageError distinguishes failures of disk and memory from errors of a statement.
func isStorageError(err error) bool {
	switch zs.ErrCode(err).ToPrimary() {
	case zs.ResultFull, zs.ResultIOErr, zs.ResultCorrupt, zs.ResultNotADB, zs.ResultReadOnly,
		zs.ResultCantOpen, zs.ResultNoMem, zs.ResultBusy, zs.ResultLocked, zs.ResultProtocol:
		return true
	}
	return false
}
