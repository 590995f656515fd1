package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/store/sqlite"
)

// TestStoreNamesTheLimitOfFiles: however few files may be opened, the store either opens and
// reads, or its error's next step is about the file limit. SQLite itself only reports that it
// cannot open a file. The limit applies to a child process.
func TestStoreNamesTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	if !reasontest.FewFiles(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	mustAppend(t, db, draft(1))
	must.Do(t, db.Close(t.Context()))
	sweepFiles(t, "opening", func() error {
		db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil {
			err = db.Close(context.Background())
		}
		return err
	})
	sweepFiles(t, "opening for reading", func() error {
		db, err := sqlite.OpenReadOnly(t.Context(), path)
		if err == nil {
			err = db.Close(context.Background())
		}
		return err
	})
	// The error about a missing file does not name the limit.
	if _, err := sqlite.OpenReadOnly(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil || strings.Contains(next(err), "LimitNOFILE") {
		t.Errorf("of a missing file: %v, next: %q", err, next(err))
	}
	if _, err := sqlite.OpenReadOnly(t.Context(), t.TempDir()); err == nil || strings.Contains(next(err), "LimitNOFILE") {
		t.Errorf("of a directory: %v, next: %q", err, next(err))
	}
}

// TestReadNamesTheLimitOfFiles: an open store opens further files for concurrent reads.
func TestReadNamesTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	if !reasontest.FewFiles(t) {
		return
	}
	db := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{}))(t)
	defer db.Close(context.Background())
	query := func(c *sqlite.Conn) error { return c.Query("SELECT count(*) FROM events", nil) }
	sweepFiles(t, "reading at once", func() error {
		return db.Read(t.Context(), func(*sqlite.Conn) error {
			return db.Read(t.Context(), query)
		})
	})
}

func sweepFiles(t *testing.T, name string, do func() error) {
	t.Helper()
	reasontest.SweepFiles(t, name, 96, 40, func() (string, bool) {
		err := do()
		if err == nil {
			return "", true
		}
		return next(err), false
	})
}

// next returns the next step of an error.
func next(err error) string {
	var known *reason.Error
	if !errors.As(err, &known) {
		known = reason.Fault(err)
	}
	return known.NextStep()
}
