package sqlite_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
)

// outOfFilesVariable has this test's own program be the child.
const outOfFilesVariable = "TEST_PALYRA_OUT_OF_FILES"

// TestStoreNamesTheLimitOfFiles: however few files may still be opened, the store opens
// and reads, or what the operator is told to do next is about that limit. SQLite itself
// says only that it is unable to open a file. The limit is that of a child.
func TestStoreNamesTheLimitOfFiles(t *testing.T) {
	if os.Getenv(outOfFilesVariable) == "" {
		cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestStoreNamesTheLimitOfFiles$", "-test.v")
		cmd.Env = append(os.Environ(), outOfFilesVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v:\n%s", err, out)
		}
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
	// A file that is missing is not taken for the limit.
	if _, err := sqlite.OpenReadOnly(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil || strings.Contains(next(err), "LimitNOFILE") {
		t.Errorf("of a missing file: %v, next: %q", err, next(err))
	}
	if _, err := sqlite.OpenReadOnly(t.Context(), t.TempDir()); err == nil || strings.Contains(next(err), "LimitNOFILE") {
		t.Errorf("of a directory: %v, next: %q", err, next(err))
	}
}

// TestReadNamesTheLimitOfFiles: a store that is open opens further files when several
// read at once.
func TestReadNamesTheLimitOfFiles(t *testing.T) {
	if os.Getenv(outOfFilesVariable) == "" {
		cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestReadNamesTheLimitOfFiles$", "-test.v")
		cmd.Env = append(os.Environ(), outOfFilesVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v:\n%s", err, out)
		}
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

// sweepFiles does something with no file left, one, two, ... until it succeeds.
func sweepFiles(t *testing.T, name string, do func() error) {
	t.Helper()
	failures := 0
	for free := range 40 {
		restore := leaveFiles(t, free)
		err := do()
		restore()
		if err == nil {
			if failures == 0 {
				t.Errorf("%s needs no file: the limit is not in force", name)
			}
			return
		}
		failures++
		if !strings.Contains(next(err), "LimitNOFILE") {
			t.Errorf("%s with %d files left: %v, next: %q", name, free, err, next(err))
		}
	}
	t.Errorf("%s does not succeed with 40 files left", name)
}

// next is what an operator is told to do about an error.
func next(err error) string {
	var known *reason.Error
	if !errors.As(err, &known) {
		known = reason.Fault(err)
	}
	return known.NextStep()
}

// leaveFiles lowers the limit and takes all but a few of the files that it leaves.
func leaveFiles(t *testing.T, free int) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 96, Max: old.Max}))
	var taken []int
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		must.Do(t, err)
		taken = append(taken, fd)
	}
	for range min(free, len(taken)) {
		must.Do(t, unix.Close(taken[0]))
		taken = taken[1:]
	}
	return func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	}
}
