package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/core/reason"
)

// migrations are named NNNN_subject.sql; NNNN is the schema version they lead
// to. A migration is never changed once released.
//
//go:embed migrations/*.sql
var migrations embed.FS

type migration struct {
	version int
	sql     string
}

// listMigrations returns the migrations in order: embedded names are sorted.
func listMigrations() ([]migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	var list []migration
	for _, name := range names {
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.Atoi(digits)
		if err != nil {
			return nil, fmt.Errorf("migration %s: the name does not begin with a number", name)
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", name, err)
		}
		if version != len(list)+1 {
			return nil, fmt.Errorf("migration %s: want the number %04d; two of one number, and one of them would be left out", name, len(list)+1)
		}
		list = append(list, migration{version, string(text)})
	}
	return list, nil
}

// migrate brings the schema to the newest version, one transaction each.
func migrate(conn *zs.Conn) error {
	list, err := listMigrations()
	if err != nil {
		return err
	}
	have, err := schemaVersion(conn, list[len(list)-1].version)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.version <= have {
			continue
		}
		script := fmt.Sprintf("%s;\nPRAGMA application_id = %d; PRAGMA user_version = %d;", m.sql, applicationID, m.version)
		err := sqlitex.ExecuteScript(conn, script, nil)
		switch {
		case isStorageError(err):
			return fmt.Errorf("migrating the store to schema version %d: %w", m.version, err)
		case err != nil:
			return reason.Errorf(reason.VerificationFailed, "the store says that it has schema version %d, and its tables are others: %w", have, err).
				WithRemedy("Nothing was changed. Keep the files, and restore a copy of the state directory that verifies.")
		}
	}
	return nil
}

// schemaVersion returns user_version after checking that the file is ours and
// not from a newer palyrad.
func schemaVersion(conn *zs.Conn, newest int) (int, error) {
	id, err := pragma(conn, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := pragma(conn, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	tables, err := pragma(conn, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case id != applicationID && (id != 0 || version != 0 || tables != 0):
		return 0, reason.Errorf(reason.ConfigInvalid, "the store's file belongs to another program (application id %#x)", id).
			WithRemedy("Point state_dir at a directory of palyrad's own.")
	case version > newest:
		return 0, reason.Errorf(reason.ConfigInvalid, "the store has schema version %d, this palyrad knows %d", version, newest).
			WithRemedy("Start the newer palyrad that wrote it, or restore a backup from before the upgrade.")
	}
	return version, nil
}

func pragma(conn *zs.Conn, query string) (int, error) {
	stmt, _, err := conn.PrepareTransient(query)
	if err != nil {
		return 0, fmt.Errorf("reading the store's schema: %w", err)
	}
	n, err := sqlitex.ResultInt(stmt)
	if ferr := stmt.Finalize(); err == nil {
		err = ferr
	}
	if err != nil {
		return 0, fmt.Errorf("reading the store's schema: %w", err)
	}
	return n, nil
}
