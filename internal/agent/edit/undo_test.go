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
