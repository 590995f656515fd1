package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Queued is how many units wait for a batch.
func Queued(db *DB) int {
	db.writer.mu.Lock()
	defer db.writer.mu.Unlock()
	return len(db.writer.queue)
}

// Exec changes stored rows behind the journal's back.
func Exec(db *DB, query string, args ...any) error {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	return c.Query(query, nil, args...)
}

// OpenUnverified opens a store without looking at its journal.
func OpenUnverified(path string) (*DB, error) {
	conn, err := openWriter(path)
	if err != nil {
		return nil, err
	}
	pool, err := openReaders(path)
	if err != nil {
		return nil, err
	}
	feed := journal.NewFeed()
	db := &DB{path: path, pool: pool, log: feed, writer: newWriter(conn, Options{Now: time.Now}, feed)}
	db.keys = atrest.New(nil, db, time.Now)
	return db, nil
}

// PutBlob stores a blob within a unit, and returns its digest. KeepsResults has to have
// succeeded: a unit may not wait for a key.
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

// RunsPlan returns the steps by which SQLite finds a page of runs.
func RunsPlan(db *DB, f run.Filter) ([]string, error) {
	query, args := runsQuery(f, run.PageSize(f.PageSize))
	return db.plan(query, args)
}

// CallsPlan returns the steps by which SQLite finds a page of calls.
func CallsPlan(db *DB, f call.Filter) ([]string, error) {
	query, args := callsQuery(f)
	return db.plan(query, args)
}

// Plan returns the steps of any query.
func Plan(db *DB, query string) ([]string, error) { return db.plan(query, nil) }

func (db *DB) plan(query string, args []any) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// QueryPlan returns the steps by which SQLite finds the events of a filter.
func QueryPlan(db *DB, f journal.Filter) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	query, args, err := c.eventQuery(f)
	if err != nil {
		return nil, err
	}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// PlacesPlan is how the places of a filter's events are found.
func PlacesPlan(db *DB, f journal.Filter) (steps []string, err error) {
	db.writer.connMu.Lock()
	defer db.writer.connMu.Unlock()
	c := Conn{c: db.writer.conn}
	covered, err := c.covered()
	if err != nil {
		return nil, err
	}
	query, args, _, err := c.placesQuery(f, covered)
	if err != nil {
		return nil, err
	}
	err = c.Query("EXPLAIN QUERY PLAN "+query, func(r *Row) error { steps = append(steps, r.Text(3)); return nil }, args...)
	return steps, err
}

// DeviceActsPlan is how what a device did is found.
func DeviceActsPlan(db *DB) ([]string, error) {
	return db.plan(deviceActs, []any{"d", "d.", "d/", 1, 1})
}

// How secrets are read, with what the journal says of them last.
const (
	OneSecret   = oneSecret
	ManySecrets = manySecrets
)

// SessionCallEvents is how the events of a session's calls are found.
const SessionCallEvents = sessionCallEvents
