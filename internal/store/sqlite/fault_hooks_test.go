package sqlite

import (
	"errors"
	"fmt"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/evidence/journal"
)

// MakeOlder creates a store with the schema before the baseline, as the palyrad of lastUpgrader
// left it, with events and with rows that a script adds.
func MakeOlder(path string, events []journal.Event, rows string) error {
	if err := prepareFile(path); err != nil {
		return err
	}
	conn, err := openWriter(path)
	if err != nil {
		return err
	}
	return errors.Join(makeOlder(conn, events, rows), conn.Close())
}

// undoBaseline reverts finishOlder.
const undoBaseline = `CREATE TABLE blobs (digest BLOB PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE untended (what TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_plain ON approvals (id) WHERE payload_key IS NULL;`

func makeOlder(conn *zs.Conn, events []journal.Event, rows string) error {
	if err := migrate(conn); err != nil {
		return err
	}
	if err := sqlitex.ExecuteScript(conn, fmt.Sprintf("%sPRAGMA user_version = %d;", undoBaseline, lastOlder), nil); err != nil {
		return err
	}
	end := &journalEnd{conn: conn}
	c := &Conn{c: conn}
	if err := c.Query("BEGIN", nil); err != nil {
		return err
	}
	var edge journal.Edge
	for i := range events {
		if err := end.insert(&events[i]); err != nil {
			return err
		}
		for _, t := range edge.Append(events[i].Hash) {
			if err := c.Query(insertTile, nil, t.Level, t.N, t.Root[:], t.Hashes); err != nil {
				return err
			}
		}
	}
	if err := c.Query("COMMIT", nil); err != nil {
		return err
	}
	return sqlitex.ExecuteScript(conn, rows, nil)
}
