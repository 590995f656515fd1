package workspace

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestHandleReadsTheCheckedFile: a handle reads the checked file, even if another file
// meanwhile has its name.
func TestHandleReadsTheCheckedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(){
		"another file": func() { write(t, filepath.Join(w.inside, "other"), "secret"); rename(t, w, "other", "f") },
		"a link":       func() { write(t, filepath.Join(w.inside, "other"), "secret"); relink(t, w, "other", "f") },
		"gone":         func() { _ = os.Remove(filepath.Join(w.inside, "f")) },
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(filepath.Join(w.inside, "f"))
			write(t, filepath.Join(w.inside, "f"), "judged")
			h, err := w.root.Open("f")
			if err != nil || h.Info().Path != "f" || h.Info().Links != 1 {
				t.Fatalf("%+v, %v", h, err)
			}
			defer h.Close()
			change()
			if c, err := h.Read(context.Background(), 0, -1); err != nil || string(c.Data) != "judged" {
				t.Errorf("%q, %v", c.Data, err)
			}
			// Control: reading by name returns the current file.
			if c, _ := w.root.ReadFile(context.Background(), "f", 0, -1); string(c.Data) == "judged" {
				t.Error("nothing was changed")
			}
		})
	}
}

// TestReadOfAMovedFileIsRefused: a file that was moved away and then written is not read under
// its old name.
func TestReadOfAMovedFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w world)
		reads  string
	}{
		"moved and changed": {func(w world) {
			rename(t, w, "f", "private/f")
			write(t, filepath.Join(w.inside, "private/f"), "a secret")
		}, ""},
		"moved":   {func(w world) { rename(t, w, "f", "private/f") }, "judged"},
		"changed": {func(w world) { write(t, filepath.Join(w.inside, "f"), "longer than judged") }, "longer than judged"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(t, filepath.Join(w.inside, "private", "other"), "x")
			write(t, filepath.Join(w.inside, "f"), "judged")
			h := must.Get(w.root.Open("f"))(t)
			defer h.Close()
			test.change(w)
			c, err := h.Read(t.Context(), 0, -1)
			if string(c.Data) != test.reads || (test.reads == "") != (reason.Of(err) == reason.BindingMismatch) {
				t.Errorf("%q, %v", c.Data, err)
			}
		})
	}
}

// TestApplyRefusesAChangedLink: a path whose link has changed since it was resolved is not
// written.
func TestApplyRefusesAChangedLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, dir := range []string{"src", "private"} {
		write(t, filepath.Join(w.inside, dir, "old"), "same")
	}
	real := must.Get(w.root.Target("src/new"))(t)
	changes := []Change{{Path: real, Content: []byte("x")}, {Path: "src/old", Was: digest("same"), Content: []byte("y")}}
	rename(t, w, "src", "moved")
	link(t, "private", filepath.Join(w.inside, "src"))
	for _, c := range changes {
		if _, err := w.root.Apply(context.Background(), []Change{c}); reason.Of(err) != reason.PatchConflict {
			t.Errorf("%s: %v", c.Path, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(w.inside, "private", "new")); err == nil || read(t, filepath.Join(w.inside, "private", "old")) != "same" {
		t.Error("a directory that was not judged was written to")
	}
	// Control: after the path is resolved again, the write succeeds.
	if _, err := apply(w, changes...); err != nil {
		t.Error(err)
	}
}

func rename(t *testing.T, w world, from, to string) {
	t.Helper()
	must.Do(t, os.Rename(filepath.Join(w.inside, from), filepath.Join(w.inside, to)))
}

func relink(t *testing.T, w world, target, name string) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(w.inside, name)))
	link(t, target, filepath.Join(w.inside, name))
}

func link(t *testing.T, target, name string) {
	t.Helper()
	must.Do(t, os.Symlink(target, name))
}
