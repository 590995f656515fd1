package guestdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/skill/catalog"
	"palyra/internal/skill/catalog/catalogtest"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/guestdata"
	"palyra/internal/sqlite/sqlitetest"
)

func TestStorage(t *testing.T) {
	catalogtest.RunStorage(t, func(t *testing.T) catalog.Storage { return guestdata.New(sqlitetest.Open(t)) })
}

// TestStorageIsSealed: a value is not in the files of the store in plain, and one that is
// moved to another user's row does not open. The control reads it in its own row.
func TestStorageIsSealed(t *testing.T) {
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
