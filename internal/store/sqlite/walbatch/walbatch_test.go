package walbatch_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/core/must"
	"palyra/internal/store/sqlite/walbatch"
)

// opened opens a connection that writes through this VFS, or through the system's.
func opened(t testing.TB, path string, batched bool, pragmas string) *zs.Conn {
	t.Helper()
	uri, flags := path, zs.OpenReadWrite|zs.OpenCreate
	if batched {
		var err error
		if uri, err = walbatch.URI(path); err != nil {
			t.Fatal(err)
		}
		flags |= zs.OpenURI
	}
	conn := must.Get(zs.OpenConn(uri, flags))(t)
	t.Cleanup(func() { _ = conn.Close() })
	first := "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB); CREATE INDEX IF NOT EXISTS tv ON t (v);"
	for p := range strings.SplitSeq(first+pragmas, ";") {
		if p == "" {
			continue
		}
		must.Do(t, sqlitex.ExecuteTransient(conn, p, nil))
	}
	return conn
}

func exec(t testing.TB, conn *zs.Conn, query string, args ...any) {
	t.Helper()
	if err := sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args}); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func rows(t testing.TB, conn *zs.Conn) (n int) {
	t.Helper()
	err := sqlitex.Execute(conn, "SELECT count(*) FROM t", &sqlitex.ExecOptions{ResultFunc: func(s *zs.Stmt) error { n = s.ColumnInt(0); return nil }})
	must.Do(t, err)
	return n
}

// copied returns a copy of the database as a new process would find it.
func copied(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, end := range []string{"", "-wal"} {
		data := must.Get(os.ReadFile(path + end))(t)
		must.Do(t, os.WriteFile(to+end, data, 0o600))
	}
	return to
}

// File names with characters that are special in a URI refer to the same file.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.db", "a b?c=d&vfs=none#e%41.db", "ü.db", "100%.db"} {
		if runtime.GOOS == "windows" && strings.Contains(name, "?") {
			continue
		}
		path := filepath.Join(t.TempDir(), name)
		exec(t, opened(t, path, true, ""), "INSERT INTO t VALUES (1, 'x')")
		if n := rows(t, opened(t, path, false, "")); n != 1 {
			t.Errorf("%q: %d rows in the file of that name", name, n)
		}
	}
}

// A commit is in the file when it returns, even if it is not yet durable. Another connection
// can read it, and so can a process that opens the files of a crashed one.
func TestCommitsDoNotWait(t *testing.T) {
	t.Parallel()
	for _, durable := range []string{"OFF", "NORMAL", "FULL"} {
		path := filepath.Join(t.TempDir(), "x.db")
		conn := opened(t, path, true, "PRAGMA synchronous = "+durable)
		other := opened(t, path, false, "")
		for i := range 50 {
			exec(t, conn, "INSERT INTO t VALUES (?1, randomblob(?2))", i, 10*i*i)
			if n := rows(t, other); n != i+1 {
				t.Fatalf("synchronous = %s: another connection sees %d rows of %d", durable, n, i+1)
			}
			if n := rows(t, opened(t, copied(t, path), false, "")); n != i+1 {
				t.Fatalf("synchronous = %s: the files hold %d rows of %d", durable, n, i+1)
			}
		}
	}
}

// A transaction reads back its own writes before it ends. A rollback, complete or to a
// savepoint, discards them, even if the cache could not hold them. SQLite before 3.50.2 wrote
// frames without a checksum after it rolled back to a savepoint, so that the files lacked
// commits (https://sqlite.org/forum/forumpost/b490f726db). The case without checkpoints fails
// each time with such a version.
func TestSpills(t *testing.T) {
	t.Parallel()
	for name, pragmas := range map[string]string{
		"checkpoints":    "PRAGMA wal_autocheckpoint = 100; PRAGMA journal_size_limit = 10000",
		"no checkpoints": "PRAGMA wal_autocheckpoint = 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spills(t, pragmas)
		})
	}
}

func spills(t *testing.T, pragmas string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	conn := opened(t, path, true, "PRAGMA cache_size = 10; PRAGMA synchronous = FULL; "+pragmas)
	random := rand.New(rand.NewPCG(1, 2))
	model := map[int][]byte{}
	for range 25 {
		exec(t, conn, "BEGIN IMMEDIATE")
		inside := clone(model)
		for range 1 + random.IntN(3) {
			exec(t, conn, "SAVEPOINT s")
			kept := clone(inside)
			for range random.IntN(60) {
				k, v := random.IntN(300), blob(random)
				exec(t, conn, "INSERT INTO t VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = ?2", k, v)
				kept[k] = v
			}
			equal(t, conn, kept)
			if random.IntN(3) == 0 {
				exec(t, conn, "ROLLBACK TO s")
			} else {
				inside = kept
			}
			exec(t, conn, "RELEASE s")
			equal(t, conn, inside)
		}
		if random.IntN(4) == 0 {
			exec(t, conn, "ROLLBACK")
		} else {
			exec(t, conn, "COMMIT")
			model = inside
		}
		equal(t, conn, model)
		found := opened(t, copied(t, path), false, "")
		equal(t, found, model)
		sound(t, found)
	}
}

func clone(m map[int][]byte) map[int][]byte {
	c := make(map[int][]byte, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func blob(random *rand.Rand) []byte {
	b := make([]byte, random.IntN(3000))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func equal(t *testing.T, conn *zs.Conn, model map[int][]byte) {
	t.Helper()
	n := 0
	err := sqlitex.Execute(conn, "SELECT k, v FROM t", &sqlitex.ExecOptions{ResultFunc: func(s *zs.Stmt) error {
		n++
		v := make([]byte, s.ColumnLen(1))
		s.ColumnBytes(1, v)
		if !bytes.Equal(v, model[s.ColumnInt(0)]) {
			return fmt.Errorf("row %d is another", s.ColumnInt(0))
		}
		return nil
	}})
	must.Do(t, err)
	if n != len(model) {
		t.Fatalf("%d rows, want %d", n, len(model))
	}
}

func sound(t *testing.T, conn *zs.Conn) {
	t.Helper()
	err := sqlitex.Execute(conn, "PRAGMA integrity_check", &sqlitex.ExecOptions{ResultFunc: func(s *zs.Stmt) error {
		if s.ColumnText(0) != "ok" {
			return fmt.Errorf("%s", s.ColumnText(0))
		}
		return nil
	}})
	must.Do(t, err)
}

// A governed call changes one to two dozen pages.
func BenchmarkCommit(b *testing.B) {
	for _, batched := range []bool{false, true} {
		for _, pages := range []int{1, 12, 24} {
			b.Run(fmt.Sprintf("batched=%v/pages=%d", batched, pages), func(b *testing.B) {
				conn := opened(b, filepath.Join(b.TempDir(), "x.db"), batched, "PRAGMA synchronous = FULL; DROP INDEX tv")
				page := make([]byte, 3500)
				for i := range 2000 {
					exec(b, conn, "INSERT INTO t VALUES (?1, ?2)", i, page)
				}
				i := 0
				for b.Loop() {
					exec(b, conn, "BEGIN IMMEDIATE")
					for range pages {
						i++
						page[0]++ // unchanged pages are not written
						exec(b, conn, "UPDATE t SET v = ?1 WHERE k = ?2", page, i*83%2000)
					}
					exec(b, conn, "COMMIT")
				}
			})
		}
	}
}
