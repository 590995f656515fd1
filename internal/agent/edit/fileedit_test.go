package edit

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o640))
}

func TestWriteKeepsMode(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "a", "settings.json")
	write(t, path, "old")
	f := must.Get(Read(path, home))(t)
	must.Do(t, f.Write([]byte("new"), 0))
	info := must.Get(os.Stat(path))(t)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v", info.Mode())
	}
	must.Do(t, f.Write([]byte("newer"), 0o600))
	if info, _ = os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if text, _ := os.ReadFile(path); string(text) != "newer" {
		t.Errorf("the file has %q", text)
	}
	list := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	if len(list) != 1 {
		t.Errorf("something was left: %v", list)
	}
}

// TestChangedMeanwhile: a write does not overwrite another writer's text, or another file with
// the same text.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "settings.json")
	for name, change := range map[string]func(){
		"another text": func() { write(t, path, "other") },
		"another file": func() { must.Do(t, os.Remove(path)); write(t, path+"2", "old"); must.Do(t, os.Rename(path+"2", path)) },
		"no file":      func() { must.Do(t, os.Remove(path)) },
		"a link":       func() { must.Do(t, os.Rename(path, path+"3")); must.Do(t, os.Symlink(path+"3", path)) },
		"none":         func() {},
	} {
		_ = os.Remove(path)
		write(t, path, "old")
		keep, err := os.Open(path) // prevents the reuse of its inode
		must.Do(t, err)
		f, err := Read(path, home)
		must.Do(t, err)
		change()
		err = f.Write([]byte("new"), 0)
		if refused := reason.Of(err) == reason.FactsChanged; refused != (name != "none") {
			t.Errorf("%s: %v", name, err)
		}
		must.Do(t, keep.Close())
	}
}

func TestNewFileThatAppeared(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "settings.json")
	f, err := Read(path, home)
	must.Do(t, err)
	write(t, path, "somebody else's")
	if err := f.Write([]byte("new"), 0); reason.Of(err) != reason.FactsChanged {
		t.Errorf("written over: %v", err)
	}
}

// TestLinks: links within the root are followed, and links that lead out of it are refused, in
// any part of the path.
func TestLinks(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	home, outside := filepath.Join(base, "home"), filepath.Join(base, "outside")
	write(t, filepath.Join(home, "dotfiles", "settings.json"), "mine")
	write(t, filepath.Join(outside, "canary"), "canary")
	must.Do(t, os.Mkdir(filepath.Join(home, "agent"), 0o700))
	must.Do(t, os.Symlink("../dotfiles/settings.json", filepath.Join(home, "agent", "settings.json")))
	must.Do(t, os.Symlink("../../outside/canary", filepath.Join(home, "agent", "out.json")))
	must.Do(t, os.Symlink("../../outside/new.json", filepath.Join(home, "agent", "new.json")))
	must.Do(t, os.Symlink(outside, filepath.Join(home, "dir")))
	must.Do(t, os.Symlink("loop", filepath.Join(home, "loop")))

	f, err := Read(filepath.Join(home, "agent", "settings.json"), home)
	must.Do(t, err)
	if !f.Linked || string(f.Text) != "mine" {
		t.Errorf("read %+v", f)
	}
	must.Do(t, f.Write([]byte("edited"), 0))
	if to, _ := os.Readlink(filepath.Join(home, "agent", "settings.json")); to == "" {
		t.Error("the link is gone")
	}
	if text, _ := os.ReadFile(filepath.Join(home, "dotfiles", "settings.json")); string(text) != "edited" {
		t.Errorf("the file has %q", text)
	}
	for _, path := range []string{"agent/out.json", "agent/new.json", "dir/canary", "dir/x/y", "loop"} {
		if _, err := Read(filepath.Join(home, path), home); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Control: with a root that contains both, the link is followed.
	if f, err := Read(filepath.Join(home, "agent/out.json"), base); err != nil || string(f.Text) != "canary" {
		t.Errorf("below what holds both: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(outside, "canary")); string(text) != "canary" {
		t.Error("the canary was written")
	}
}

// TestLinkedHome: a home directory that is itself a link is accepted.
func TestLinkedHome(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	write(t, filepath.Join(base, "real", "settings.json"), "x")
	must.Do(t, os.Symlink("real", filepath.Join(base, "home")))
	f := must.Get(Read(filepath.Join(base, "home", "settings.json"), filepath.Join(base, "home")))(t)
	if f.Linked || f.Path != filepath.Join(must.Get(filepath.EvalSymlinks(base))(t), "real", "settings.json") {
		t.Errorf("read %+v", f)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "s[1].json")
	write(t, filepath.Join(home, ".s[1].json.palyra-123"), "half")
	write(t, filepath.Join(home, ".s1.json.palyra-123"), "another's")
	must.Do(t, Sweep(path))
	list := must.Get(os.ReadDir(home))(t)
	if len(list) != 1 || list[0].Name() != ".s1.json.palyra-123" {
		t.Errorf("left: %v", list)
	}
}

func TestMakeDirs(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var made []string
	must.Do(t, MakeDirs(filepath.Join(home, "a", "b"), 0o700, func(dir string) error { made = append(made, dir); return nil }))
	if len(made) != 2 || made[0] != filepath.Join(home, "a") {
		t.Errorf("made %v", made)
	}
	must.Do(t, MakeDirs(filepath.Join(home, "a", "b"), 0o700, func(string) error { t.Error("made again"); return nil }))
}
