// Package sqlitetest opens embedded stores for tests.
package sqlitetest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault/atrest/atresttest"
)

// Origin is the gateway id of test stores.
const Origin = "gateway.test"

// Dir returns a temporary directory for stores. It is in memory if the system has room, so that a
// commit does not wait for the disk. A test of durability uses t.TempDir.
func Dir(t testing.TB) string {
	t.Helper()
	dir := newMemoryDir()
	if dir == "" {
		return t.TempDir()
	}
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	return dir
}

// Open returns an empty store in Dir that is closed when the test ends. The store is a copy of
// an empty store with the current schema; a test of the migrations calls sqlite.Open.
func Open(t testing.TB) *sqlite.DB {
	t.Helper()
	return OpenMigrated(t, filepath.Join(Dir(t), "palyra.db"), sqlite.Options{})
}

// OpenAt opens the store at path with options. The store is closed when the test ends. If
// opts.Results is nil, OpenAt sets a ring that is never locked.
func OpenAt(t testing.TB, path string, opts sqlite.Options) *sqlite.DB {
	t.Helper()
	if opts.Results == nil {
		opts.Results = &atresttest.Ring{}
	}
	db := must.Get(sqlite.Open(context.Background(), path, opts))(t)
	t.Cleanup(func() { must.Check(t, db.Close(context.Background())) })
	return db
}

// OpenMigrated is OpenAt for a new store at path whose schema is already current: with the race
// detector, the migrations take longer than most tests.
func OpenMigrated(t testing.TB, path string, opts sqlite.Options) *sqlite.DB {
	t.Helper()
	must.Do(t, os.WriteFile(path, must.Get(migrated())(t), 0o600))
	return OpenAt(t, path, opts)
}

// migrated returns the file of an empty store, which it creates once.
var migrated = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "sqlitetest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(context.Background()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Key returns a new checkpoint key of Origin: the signer and its verifiers.
func Key(t testing.TB) (note.Signer, note.Verifiers) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, Origin)
	must.Do(t, err)
	return must.Get(note.NewSigner(private))(t), note.VerifierList(must.Get(note.NewVerifier(public))(t))
}
