package overlay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// scramble performs random changes on a tree, the same ones for the same seed. Some of its
// links lead outside, and later steps write to any name. All changes use an os.Root, which
// cannot leave the tree, because the test also runs as root.
func scramble(dir, seed, outside string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(n, 7))
	for range 60 {
		disturb(r, root, outside)
	}
	return root.Close()
}

// disturb performs one change, or none if the change is impossible.
func disturb(r *rand.Rand, root *os.Root, outside string) {
	pick := func() string {
		names := []string{"a", "b", "c", "a-b", "odd\n\xff", "d e"}
		var parts []string
		for range 1 + r.IntN(3) {
			parts = append(parts, names[r.IntN(len(names))])
		}
		return filepath.Join(parts...)
	}
	name := pick()
	modes := []os.FileMode{0o644, 0o600, 0o755, 0o700, 0o444}
	switch r.IntN(11) {
	case 0, 1, 2:
		_ = root.MkdirAll(filepath.Dir(name), 0o755)
		_ = root.WriteFile(name, []byte(fmt.Sprint(r.IntN(5))), modes[r.IntN(len(modes))])
	case 3:
		_ = root.RemoveAll(name)
	case 4:
		_ = root.Rename(name, pick())
	case 5:
		_ = root.Symlink([]string{"a", "../b", outside, "c/../.."}[r.IntN(4)], name)
	case 6:
		_ = root.MkdirAll(name, 0o755)
	case 7:
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
			_ = root.Chmod(name, modes[r.IntN(len(modes))])
		} else if err == nil && info.IsDir() {
			_ = root.Chmod(name, []os.FileMode{0o755, 0o700, 0o750}[r.IntN(3)])
		}
	case 8: // an opaque directory
		_ = root.RemoveAll(name)
		_ = root.MkdirAll(name, 0o755)
		_ = root.WriteFile(filepath.Join(name, "b"), []byte("opaque"), 0o644)
	case 9:
		_ = root.Link(pick(), name)
	case 10:
		if f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.WriteString("more")
			_ = f.Close()
		}
	}
}

// TestCommitIsWhatTheKernelShows performs random changes in a real overlay. After the commit
// the workspace equals the tree inside, and after the undo it equals the original.
func TestCommitIsWhatTheKernelShows(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 3
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ":")
			must.Do(t, scramble(w.root, fmt.Sprint(seed+1000), w.canary))
			before := mustTree(t, w.root)
			shown := w.inside("random", fmt.Sprint(seed), w.canary)
			set := w.changes()
			if diff := differences(before, mustTree(t, w.root)); diff != "" {
				t.Fatalf("looking changed the workspace:\n%s", diff)
			}
			applied := w.commit(set)
			if diff := differences(shown, mustTree(t, w.root)); diff != "" {
				t.Fatalf("the workspace is not what was shown:\n%s", diff)
			}
			if len(set.Changes) == 0 {
				return
			}
			must.Get(w.history.Undo(t.Context(), w.root, "ws", applied.Summary.ID, w.options()))(t)
			if diff := differences(before, mustTree(t, w.root)); diff != "" {
				t.Fatalf("undoing did not restore the workspace:\n%s", diff)
			}
			leftovers(t, w)
		})
	}
}

// TestScrambleStaysInside: links to a canary are created, and no write, rename or removal
// reaches it. Control: a write by name reaches it.
func TestScrambleStaysInside(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, outside := filepath.Join(top, "dir"), newCanary(t, top)
	must.Do(t, os.Mkdir(dir, 0o755))
	links := 0
	for seed := range 100 {
		must.Do(t, scramble(dir, fmt.Sprint(seed), outside))
		for _, what := range mustTree(t, dir) {
			if what == outside {
				links++
			}
		}
	}
	if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 || links == 0 {
		t.Errorf("%d links led out, and beside them stand %v (%v)", links, entries, err)
	}

	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	own := filepath.Join(top, "own")
	for _, err := range []error{os.WriteFile(own, nil, 0o600), root.Symlink(own, "link")} {
		must.Do(t, err)
	}
	if err := root.WriteFile("link", []byte("x"), 0o600); err == nil || read(t, own) != "" {
		t.Errorf("the root let a write out: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "link"), []byte("x"), 0o600); err != nil || read(t, own) != "x" {
		t.Errorf("the control: by name, nothing was written through the link (%v)", err)
	}
}

// TestChangedWhileTheProgramRan: a commit does not overwrite a concurrent change by another
// process with the program's version of the old bytes.
func TestChangedWhileTheProgramRan(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"other bytes": "echo other > f", "the same bytes": "echo mine > f", "put in its place": "echo other > g; mv g f",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "echo old > f; echo still > h")
			must.Do(t, w.layer.Begin())
			w.tick()
			w.outside(script)
			must.Do(t, os.WriteFile(filepath.Join(w.layer.Upper().Name(), "h"), []byte("new"), 0o644))
			if set := w.changes(); len(set.Changes) != 1 { // control: only f was changed
				t.Fatalf("changes = %+v", set.Changes)
			}
			must.Do(t, os.WriteFile(filepath.Join(w.layer.Upper().Name(), "f"), []byte("mine\n"), 0o644))
			if _, err := w.layer.Changes(t.Context()); reason.Of(err) != reason.CommitConflict {
				t.Fatalf("Changes: %v, want a conflict", err)
			}
		})
	}
}

// tick waits until the kernel's coarse clock for timestamps has reached the start time of the
// program.
func (w *world) tick() {
	w.t.Helper()
	must.Eventually(w.t, "the coarse clock passes the start of the program", func() (bool, string) {
		var now unix.Timespec
		must.Do(w.t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
		return after(now, w.layer.since), fmt.Sprint(now)
	})
}

// TestHardLink: a file with other names is protected, and a commit separates it from them.
func TestHardLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "echo old > f; echo old > single")
	outside := filepath.Join(t.TempDir(), "alias")
	must.Do(t, os.Link(filepath.Join(w.root, "f"), outside))
	w.inside("sh", "echo new > f; echo new > single")
	set := w.changes()
	if got := classesOf(set); got["f"] != string(ClassHardLink) || got["single"] != "" {
		t.Fatalf("classes = %v", got)
	}
	w.commit(set)
	if text, err := os.ReadFile(outside); err != nil || string(text) != "old\n" {
		t.Errorf("the other name has %q, %v", text, err)
	}
}

// leftovers fails if a commit left temporary names.
func leftovers(t *testing.T, w *world) {
	t.Helper()
	for name := range mustTree(t, w.root) {
		if raw, _ := bytesOf("", name); strings.Contains(raw, ".palyra-") {
			t.Errorf("%q was left", raw)
		}
	}
}
