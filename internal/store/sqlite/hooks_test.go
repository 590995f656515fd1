package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/call"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
	"palyra/internal/vault/atrest"
)

// WriterPragma runs a pragma on the writer's connection between batches.
func WriterPragma(db *DB, pragma string) error {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	return sqlitex.ExecuteTransient(db.writer.conn, pragma, nil)
}

// Queued returns the number of units that wait for a batch.
func Queued(db *DB) int {
	db.writer.queue.mu.Lock()
	defer db.writer.queue.mu.Unlock()
	return len(db.writer.queue.waiting)
}

// Exec changes stored rows without the journal.
func Exec(db *DB, query string, args ...any) error {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	return c.Query(query, nil, args...)
}

// OpenUnverified opens a store without verifying its journal.
func OpenUnverified(path string) (*DB, error) {
	conn, err := openWriter(path)
	if err != nil {
		return nil, err
	}
	pool, err := openReaders(path, zs.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	feed := journal.NewFeed()
	db := &DB{path: path, pool: pool, log: feed, writer: newWriter(conn, Options{Now: time.Now}, feed)}
	db.keys = atrest.New(nil, Results{db}, time.Now)
	return db, nil
}

// PutBlob stores a blob within a unit, and returns its digest. KeepsResults MUST have
// succeeded, because a unit may not wait for a key.
func PutBlob(db *DB, tx *Tx, data []byte) (digest string, err error) {
	if !db.keys.IsOpen() {
		return "", errors.New("no key is open")
	}
	blobs, err := db.sealBlobs(context.Background(), [][]byte{data})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", blobs[0].digest), tx.putBlobs(blobs)
}

// RunsPlan returns SQLite's query plan for a page of runs.
func RunsPlan(db *DB, f run.Filter) ([]string, error) {
	query, args := runsQuery(f, run.PageSize(f.PageSize))
	return db.plan(query, args)
}

// CallsPlan returns SQLite's query plan for a page of calls.
func CallsPlan(db *DB, f call.Filter) ([]string, error) {
	query, args := callsQuery(f)
	return db.plan(query, args)
}

// Plan returns SQLite's plan for any query.
func Plan(db *DB, query string) ([]string, error) { return db.plan(query, nil) }

func (db *DB) plan(query string, args []any) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// QueryPlan returns SQLite's query plan for the events of a filter.
func QueryPlan(db *DB, f journal.Filter) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	query, args, err := eventRows{&c}.eventQuery(f)
	if err != nil {
		return nil, err
	}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// PlacesPlan returns SQLite's query plan for the places of a filter's events.
func PlacesPlan(db *DB, f journal.Filter) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	covered, err := eventRows{&c}.covered()
	if err != nil {
		return nil, err
	}
	query, args, _, err := eventRows{&c}.placesQuery(f, covered)
	if err != nil {
		return nil, err
	}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// DeviceActsPlan returns SQLite's query plan for the acts of a device.
func DeviceActsPlan(db *DB) ([]string, error) {
	return db.plan(deviceActs, []any{"d", "d.", "d/", 1, 1})
}

// These queries read secrets with their latest journal events.
const (
	OneSecret   = oneSecret
	ManySecrets = manySecrets
)

// SessionCallEvents is the query for the events of a session's calls.
const SessionCallEvents = sessionCallEvents
