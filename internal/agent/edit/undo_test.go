package edit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/agent/edit"
	"palyra/internal/core/must"
)

// TestRecord: a file of any accepted size is recorded, changed and restored, also its mode. A file
// that another program edited is recognized.
func TestRecord(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	path, at := filepath.Join(root, "settings"), filepath.Join(root, "state", "record.json")
	before := bytes.Repeat([]byte("x"), 2<<20)
	must.Do(t, os.WriteFile(path, before, 0o640))
	f := must.Get(edit.Read(path, root))(t)
	type record struct {
		Format int
		Files  []edit.Original
	}
	must.Do(t, edit.WriteRecord(at, record{1, []edit.Original{f.Original([]byte("y"))}}))
	must.Do(t, f.Write([]byte("y"), 0o600))
	var kept record
	if exists := must.Get(edit.ReadRecord(at, 1, &kept))(t); !exists {
		t.Fatal("the record does not exist")
	}
	if _, err := edit.ReadRecord(at, 2, &record{}); err == nil {
		t.Error("a record of another format was read")
	}
	if _, err := edit.ReadRecord(at, 1, &struct{ Format int }{}); err == nil {
		t.Error("a record with unknown members was read")
	}
	o := kept.Files[0]
	f = must.Get(o.Read())(t)
	if o.Edited(f) {
		t.Error("the change counts as another program's")
	}
	must.Do(t, o.Restore(f))
	if got := must.Get(os.ReadFile(path))(t); !bytes.Equal(got, before) || must.Get(os.Stat(path))(t).Mode().Perm() != 0o640 {
		t.Errorf("restored %d bytes", len(got))
	}
	must.Do(t, os.WriteFile(path, []byte("z"), 0o640))
	if !o.Edited(must.Get(o.Read())(t)) {
		t.Error("another program's edit is not recognized")
	}
	must.Do(t, edit.RemoveFile(at))
	must.Do(t, edit.RemoveFile(filepath.Join(root, "missing", "record.json")))
	if exists := must.Get(edit.ReadRecord(at, 1, &kept))(t); exists {
		t.Error("the record still exists")
	}
}

// TestRecordOfLink: nothing is removed behind a link that replaced a directory of the file.
func TestRecordOfLink(t *testing.T) {
	t.Parallel()
	root, elsewhere := must.Get(filepath.EvalSymlinks(t.TempDir()))(t), must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	dir := filepath.Join(root, "agent")
	must.Do(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "settings")
	must.Do(t, os.WriteFile(path, []byte("x"), 0o600))
	o := must.Get(edit.Read(path, root))(t).Original([]byte("y"))
	canary := filepath.Join(elsewhere, ".settings.palyra-canary")
	must.Do(t, os.WriteFile(canary, nil, 0o600))
	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.Symlink(elsewhere, dir))
	if _, err := o.Read(); err == nil {
		t.Error("a file behind a link was read")
	}
	if _, err := os.Lstat(canary); err != nil {
		t.Errorf("a file behind a link was removed: %v", err)
	}
}
