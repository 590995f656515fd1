package overlay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
)

// scramble does random things to a tree, the same ones for the same seed.
func scramble(root, seed string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(n, 7))
	for range 60 {
		disturb(r, root)
	}
	return nil
}

// disturb does one thing. What is not possible is not done.
func disturb(r *rand.Rand, root string) {
	pick := func() string {
		names := []string{"a", "b", "c", "a-b", "odd\n\xff", "d e"}
		parts := []string{root}
		for range 1 + r.IntN(3) {
			parts = append(parts, names[r.IntN(len(names))])
		}
		return filepath.Join(parts...)
	}
	name := pick()
	modes := []os.FileMode{0o644, 0o600, 0o755, 0o700, 0o444}
	switch r.IntN(11) {
	case 0, 1, 2:
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		_ = os.WriteFile(name, []byte(fmt.Sprint(r.IntN(5))), modes[r.IntN(len(modes))])
	case 3:
		_ = os.RemoveAll(name)
	case 4:
		_ = os.Rename(name, pick())
	case 5:
		_ = os.Symlink([]string{"a", "../b", "/etc/passwd", "c/../.."}[r.IntN(4)], name)
	case 6:
		_ = os.MkdirAll(name, 0o755)
	case 7:
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(name, modes[r.IntN(len(modes))])
		} else if err == nil && info.IsDir() {
			_ = os.Chmod(name, []os.FileMode{0o755, 0o700, 0o750}[r.IntN(3)])
		}
	case 8: // an opaque directory
		_ = os.RemoveAll(name)
		_ = os.MkdirAll(name, 0o755)
		_ = os.WriteFile(filepath.Join(name, "b"), []byte("opaque"), 0o644)
	case 9:
		_ = os.Link(pick(), name)
	case 10:
		if f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.WriteString("more")
			_ = f.Close()
		}
	}
}

// TestCommitIsWhatTheKernelShows does random things in a real overlay: after
// the commit the workspace is the tree that was seen inside, and after the
// undoing it is what it was.
func TestCommitIsWhatTheKernelShows(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 3
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ":")
			if err := scramble(w.root, fmt.Sprint(seed+1000)); err != nil {
				t.Fatal(err)
			}
			before := mustTree(t, w.root)
			shown := w.inside("random", fmt.Sprint(seed))
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
			if _, err := w.history.Undo(t.Context(), w.root, "ws", applied.Summary.ID, w.options()); err != nil {
				t.Fatal(err)
			}
			if diff := differences(before, mustTree(t, w.root)); diff != "" {
				t.Fatalf("undoing did not restore the workspace:\n%s", diff)
			}
			leftovers(t, w)
		})
	}
}

// TestChangedWhileTheProgramRan: what another writes while the program runs is
// not overwritten by what the program made of the bytes before.
func TestChangedWhileTheProgramRan(t *testing.T) {
	for name, script := range map[string]string{
		"other bytes": "echo other > f", "the same bytes": "echo mine > f", "put in its place": "echo other > g; mv g f",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "echo old > f; echo still > h")
			if err := w.layer.Begin(); err != nil {
				t.Fatal(err)
			}
			w.tick()
			w.outside(script)
			if err := os.WriteFile(filepath.Join(w.layer.Upper().Name(), "h"), []byte("new"), 0o644); err != nil {
				t.Fatal(err)
			}
			if set := w.changes(); len(set.Changes) != 1 { // the control: f alone was changed
				t.Fatalf("changes = %+v", set.Changes)
			}
			if err := os.WriteFile(filepath.Join(w.layer.Upper().Name(), "f"), []byte("mine\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := w.layer.Changes(t.Context()); reason.Of(err) != reason.CommitConflict {
				t.Fatalf("Changes: %v, want a conflict", err)
			}
		})
	}
}

// tick waits until the clock that the kernel stamps changes by, which may be
// behind, has come to the time at which the program started.
func (w *world) tick() {
	w.t.Helper()
	for {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			w.t.Fatal(err)
		}
		if after(now, w.layer.since) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHardLink: a file with other names is protected, and a commit parts them.
func TestHardLink(t *testing.T) {
	w := newWorld(t, "echo old > f; echo old > single")
	outside := filepath.Join(t.TempDir(), "alias")
	if err := os.Link(filepath.Join(w.root, "f"), outside); err != nil {
		t.Fatal(err)
	}
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

// leftovers fails when a commit left temporary names.
func leftovers(t *testing.T, w *world) {
	t.Helper()
	for name := range mustTree(t, w.root) {
		if raw, _ := bytesOf("", name); strings.Contains(raw, ".palyra-") {
			t.Errorf("%q was left", raw)
		}
	}
}
