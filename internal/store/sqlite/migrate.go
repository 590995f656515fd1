package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/core/reason"
)

// migrations are named NNNN_subject.sql; NNNN is the schema version after the migration. The first
// is the baseline, which creates a new store. A released migration MUST NOT be changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

const (
	// lastOlder is the schema of the palyrad of the commit lastUpgrader. That palyrad upgrades
	// every older store to lastOlder, and finishOlder converts such a store to the baseline.
	lastOlder    = 36
	lastUpgrader = "06503a469f9cb061864afb5531506b538c10550d"
	// finishOlder drops the tables of the earlier upgrades, which are empty (see unfinished), and
	// stores the key of a device that never renewed it in the form of renewed keys.
	finishOlder = `DROP TABLE blobs;
DROP TABLE untended;
DROP INDEX approvals_plain;
UPDATE devices SET keys = json_array(json_object('sha256', key_sha256,
 'not_after', strftime('%Y-%m-%dT%H:%M:%fZ', not_after / 1e6, 'unixepoch'),
 'used_at', strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch'))) WHERE keys = ''`
	// unfinished selects a row if the palyrad of lastUpgrader has not finished: it seals plain data
	// in the background and then empties these tables.
	unfinished = `SELECT 1 WHERE EXISTS (SELECT 1 FROM blobs) OR EXISTS (SELECT 1 FROM untended)
 OR EXISTS (SELECT 1 FROM approvals WHERE payload_key IS NULL)`
)

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
		if want := lastOlder + 1 + len(list); version != want {
			return nil, fmt.Errorf("migration %s: want the number %04d, because the numbers of migrations are consecutive", name, want)
		}
		list = append(list, migration{version, string(text)})
	}
	return list, nil
}

// newestSchema returns the schema version that this palyrad writes.
func newestSchema() (int, error) {
	list, err := listMigrations()
	return lastOlder + len(list), err
}

// migrate upgrades the schema to the newest version, each step in one transaction.
func migrate(conn *zs.Conn) error {
	list, err := listMigrations()
	if err != nil {
		return err
	}
	have, err := schemaVersion(conn, lastOlder+len(list))
	if err != nil {
		return err
	}
	if have == lastOlder {
		list[0].sql = finishOlder
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
			return reason.Errorf(reason.VerificationFailed, "the store has schema version %d, but not the tables of that version: %w", have, err).
				WithRemedy("Nothing was changed. Keep the files, and restore a copy of the state directory that verifies.")
		}
	}
	return nil
}

// CheckSchema refuses the file at path if this palyrad cannot upgrade it or if it belongs to
// another program. It writes nothing. It returns the schema version of the file, 0 for a missing or
// empty one, and the version that this palyrad writes.
func CheckSchema(path string) (have, newest int, err error) {
	if newest, err = newestSchema(); err != nil {
		return 0, 0, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, newest, nil
	}
	have, err = storedVersion(path)
	return have, newest, unusable(path, err)
}

// schemaVersion returns the schema version of a file, 0 for an empty one. It refuses a file of
// another program or of a newer palyrad, and a file that an older palyrad must upgrade first.
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
			WithRemedy("Set state_dir to a directory that only palyrad uses.")
	case version > newest:
		return 0, reason.Errorf(reason.ConfigInvalid, "the store has schema version %d, this palyrad knows %d", version, newest).
			WithRemedy("Start the newer palyrad that wrote it, or restore a backup from before the upgrade.")
	case version > 0 && version < lastOlder:
		return 0, reason.Errorf(reason.ConfigInvalid, "the store has schema version %d, which this palyrad does not upgrade", version).
			WithRemedy("Nothing was changed. Copy the state directory, run palyrad of commit %s on it for some minutes, and then start this one.", lastUpgrader)
	case version == lastOlder:
		return version, checkFinished(conn)
	}
	return version, nil
}

// checkFinished refuses a store of lastOlder with plain data that its palyrad has not sealed yet.
func checkFinished(conn *zs.Conn) error {
	left, err := (&Conn{c: conn}).QueryRow(unfinished, func(*Row) error { return nil })
	if err != nil {
		return fmt.Errorf("reading the store's schema: %w", err)
	}
	if left {
		return reason.Errorf(reason.ConfigInvalid, "the earlier palyrad has not finished the upgrade of the store: it seals stored data in the background").
			WithRemedy("Nothing was changed. Run palyrad of commit %s for some more minutes, and then start this one.", lastUpgrader)
	}
	return nil
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
