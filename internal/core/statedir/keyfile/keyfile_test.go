package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	must.Do(t, keyfile.MakeDir(dir))
	path := filepath.Join(dir, "key")
	for _, text := range []string{"first, the longer one", "second", ""} {
		must.Do(t, keyfile.Write(path, []byte(text)))
		if got, err := keyfile.Read(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	if _, err := keyfile.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := keyfile.Read(dir); err == nil {
		t.Error("a directory was read")
	}
	if err := keyfile.Write(filepath.Join(dir, "none", "key"), nil); err == nil {
		t.Error("wrote into a directory that is not there")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no mode bits")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	must.Do(t, os.WriteFile(path, []byte("x"), 0o644))
	if _, err := keyfile.Read(path); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a readable key: %v", err)
	}
	if _, err := keyfile.ReadOwn(path); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a readable key of one's own: %v", err)
	}
	// Write corrects the mode: the new file is private.
	must.Do(t, keyfile.Write(path, []byte("y")))
	if _, err := keyfile.Read(path); err != nil {
		t.Error(err)
	}
	for _, read := range []func(string) ([]byte, error){keyfile.Read, keyfile.ReadOwn} {
		if text, err := read(path); err != nil || string(text) != "y" {
			t.Errorf("%q, %v", text, err)
		}
	}
	name := filepath.Join(dir, "name")
	must.Do(t, os.Symlink(path, name))
	if _, err := keyfile.ReadOwn(name); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a link to a key: %v", err)
	}
	must.Get(keyfile.Read(name))(t) // control
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink(dir, link))
	if err := keyfile.CheckDir(link); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a link for a directory: %v", err)
	}
	must.Do(t, os.WriteFile(path, make([]byte, 2<<20), 0o600))
	if _, err := keyfile.Read(path); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a huge file: %v", err)
	}
	wide := filepath.Join(dir, "wide")
	must.Do(t, os.Mkdir(wide, 0o755))
	if err := keyfile.MakeDir(wide); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a wide directory: %v", err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"key.pem", ".key.pem.123", ".key.pem.link", ".key.pem.swp", ".key.pem.", ".other.1"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, keyfile.FileMode))
	}
	must.Do(t, keyfile.Sweep(dir, "key.pem", "ca.pem"))
	var left []string
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != ".key.pem. .key.pem.swp .other.1 key.pem" {
		t.Errorf("what is left is %s", got)
	}
	if err := keyfile.Sweep(filepath.Join(dir, "none"), "key.pem"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}
