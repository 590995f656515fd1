package sqlite

import (
	"errors"
	"fmt"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/evidence/journal"
)

// SchemaVersions returns the versions that there have been, oldest first.
func SchemaVersions() (versions []int, err error) {
	list, err := listMigrations()
	for _, m := range list {
		versions = append(versions, m.version)
	}
	return versions, err
}

// MakeOlder makes a store as a palyrad of an older schema version left it,
// with events, and rows that a script adds.
func MakeOlder(path string, version int, events []journal.Event, rows string) error {
	if err := prepareFile(path); err != nil {
		return err
	}
	conn, err := openWriter(path)
	if err != nil {
		return err
	}
	return errors.Join(makeOlder(conn, version, events, rows), conn.Close())
}

func makeOlder(conn *zs.Conn, version int, events []journal.Event, rows string) error {
	list, err := listMigrations()
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.version > version {
			break
		}
		script := fmt.Sprintf("%s;\nPRAGMA application_id = %d; PRAGMA user_version = %d;", m.sql, applicationID, m.version)
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			return err
		}
	}
	w := &writer{conn: conn}
	c := &Conn{c: conn}
	if err := w.exec("BEGIN"); err != nil {
		return err
	}
	var edge journal.Edge
	for i := range events {
		if err := w.insert(&events[i]); err != nil {
			return err
		}
		for _, t := range edge.Append(events[i].Hash) {
			if err := c.Query(insertTile, nil, t.Level, t.N, t.Root[:], t.Hashes); err != nil {
				return err
			}
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return err
	}
	return sqlitex.ExecuteScript(conn, rows, nil)
}

// StoredVersion is the schema version of the file at path.
func StoredVersion(path string) (int, error) { return storedVersion(path) }
