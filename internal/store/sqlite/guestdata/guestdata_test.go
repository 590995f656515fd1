package guestdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill/catalog"
	"palyra/internal/exec/skill/catalog/catalogtest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/guestdata"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestStorage(t *testing.T) {
	t.Parallel()
	catalogtest.RunStorage(t, func(t *testing.T) catalog.Storage { return guestdata.New(sqlitetest.Open(t)) })
}

// TestStorageIsSealed: no value is in the store's files in plain text, and a value that is
// moved to another user's row does not open. Control: the value opens in its own row.
func TestStorageIsSealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	s := guestdata.New(db)
	mine, other := catalog.Space{Skill: "notes", User: "user:ann"}, catalog.Space{Skill: "notes", User: "user:bob"}
	secret := []byte("what nobody else should read")
	must.Do(t, s.Put(t.Context(), mine, "k", secret, 1000))
	if got := must.Get(s.Get(t.Context(), mine, "k"))(t); !bytes.Equal(got, secret) {
		t.Fatalf("the control reads %q", got)
	}
	files := 0
	must.Do(t, filepath.WalkDir(filepath.Dir(path), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		if bytes.Contains(text, secret) {
			t.Errorf("%s has it in plain", name)
		}
		return err
	}))
	if files == 0 {
		t.Error("no file was looked at")
	}
	_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error {
		_, err := tx.Exec("UPDATE skill_storage SET user = ?1", other.User)
		return err
	}})
	must.Do(t, err)
	if got, err := s.Get(t.Context(), other, "k"); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("in another's row it reads %q, %v", got, err)
	}
}

// TestStorageIsVerified: the verification of a whole store detects values that no key opens.
func TestStorageIsVerified(t *testing.T) {
	t.Parallel()
	_, known := sqlitetest.Key(t)
	for name, sql := range map[string]string{
		"the control": "", "cut off": "UPDATE skill_storage SET box = zeroblob(3)", "another digest": "UPDATE skill_storage SET digest = x'00'",
		"a key that is not there": "UPDATE skill_storage SET results_key = 'x'",
	} {
		path := filepath.Join(t.TempDir(), "store")
		db := sqlitetest.OpenAt(t, path, sqlite.Options{})
		must.Do(t, guestdata.New(db).Put(t.Context(), catalog.Space{Skill: "notes", User: "user:ann"}, "\u00e4", []byte("value"), 1000))
		if sql != "" {
			_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { _, err := tx.Exec(sql); return err }})
			must.Do(t, err)
		}
		_, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known)
		if found := err != nil && strings.Contains(err.Error(), "the data of skill notes for user:ann is damaged"); found != (sql != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
