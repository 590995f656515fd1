package walbatch_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/core/must"
)

// writesOf counts the write system calls of this process.
func writesOf(t *testing.T, do func()) int {
	t.Helper()
	before := writes(t)
	do()
	return writes(t) - before
}

func writes(t *testing.T) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/io")
	if err != nil {
		t.Skipf("this kernel does not count the writes of a process: %v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "syscw: "); ok {
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("this kernel does not count the writes of a process")
	return 0
}

// The pages of a commit are written together. Control: the system's VFS needs two writes per
// page.
//
// Not parallel: it counts the writes of the process.
func TestOneWrite(t *testing.T) {
	counts := map[bool]int{}
	for _, batched := range []bool{false, true} {
		conn := opened(t, filepath.Join(t.TempDir(), "x.db"), batched, "PRAGMA synchronous = FULL")
		for i := range 20 {
			exec(t, conn, "INSERT INTO t VALUES (?1, randomblob(3500))", i)
		}
		counts[batched] = writesOf(t, func() { exec(t, conn, "UPDATE t SET v = randomblob(3500)") })
	}
	if counts[true] > 10 || counts[false] < 40 {
		t.Errorf("a commit of 20 pages and more took %d writes, and %d over the system's VFS", counts[true], counts[false])
	}
}

// On a full disk, a commit that does not fit fails and leaves no rows. Earlier commits are
// intact.
//
// Not parallel: it lowers the file size limit of the process.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	conn := opened(t, path, true, "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0")
	var was unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	limit := was
	limit.Cur = 300_000
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	defer func() {
		must.Check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was))
	}()
	kept, failed := 0, 0
	for i := range 200 {
		err := sqlitex.Execute(conn, "INSERT INTO t VALUES (?1, randomblob(9000))", &sqlitex.ExecOptions{Args: []any{i}})
		if err == nil {
			kept++
			continue
		}
		failed++
		if code := zs.ErrCode(err).ToPrimary(); code != zs.ResultFull && code != zs.ResultIOErr {
			t.Fatal(err)
		}
		if n := rows(t, conn); n != kept {
			t.Fatalf("%d rows after a commit that failed, want %d", n, kept)
		}
	}
	if kept == 0 || failed == 0 {
		t.Fatalf("%d commits fitted, %d did not", kept, failed)
	}
	found := opened(t, copied(t, path), false, "")
	if n := rows(t, found); n != kept {
		t.Fatalf("the files hold %d rows of %d", n, kept)
	}
	sound(t, found)
}
