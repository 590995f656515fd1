package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// interrupted begins a commit and abandons it at the point where do stopped, like a crash.
func (w *world) interrupted(set Set, do func(t *transaction) error) {
	w.t.Helper()
	must.Do(w.t, control(w.layer.upper, func(upper int) error {
		from := layerSource{dirs: dirCache{root: upper, fd: -1}}
		defer from.dirs.close()
		s := set.summary(w.options())
		t, m := newTransaction(set.Changes, from.open, &s)
		return control(w.layer.lower, func(root int) error {
			return t.in(root, w.history, m, "", func() error { return do(t) })
		})
	}))
}

func (w *world) recover(committed bool, want tree) {
	w.t.Helper()
	done, err := w.history.Recover(map[string]string{"ws": w.root, "other": w.root})
	if err != nil || len(done) != 1 || done[0].Committed != committed {
		w.t.Errorf("recovered %v (%v)", done, err)
	}
	if diff := differences(want, mustTree(w.t, w.root)); diff != "" {
		w.t.Errorf("the workspace is not whole:\n%s", diff)
	}
	if done, err := w.history.Recover(map[string]string{"ws": w.root}); err != nil || len(done) != 0 {
		w.t.Errorf("a second recovery did %v (%v)", done, err)
	}
	kept, err := w.history.List("ws")
	if err != nil || len(kept) > 0 != committed {
		w.t.Errorf("kept %v (%v)", kept, err)
	}
}

const (
	crashBefore = `echo 1 >f; mkdir -p d/e; echo 2 >d/e/g; ln -s f l; mkdir m; chmod 500 m; mkdir o; echo 3 >swap`
	crashScript = `echo 2 >f; rm -r d; ln -sf x l; chmod 700 m; echo 4 >m/new; chmod 711 o; rm swap; mkdir swap; echo 5 >swap/in; mkdir n; echo 6 >n/o`
)

// TestCrash stops a commit between any two of its steps, and verifies the recovery.
func TestCrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	setup := func(t *testing.T) (w *world, set Set, before, after tree) {
		w = newWorld(t, crashBefore)
		before = mustTree(t, w.root)
		after = w.inside("sh", crashScript)
		return w, w.changes(), before, after
	}
	errStop := errors.New("stop")
	t.Run("while preparing", func(t *testing.T) {
		for n := range 4 {
			w, set, before, _ := setup(t)
			w.interrupted(set, func(t *transaction) error {
				if err := t.prepare(&fading{Context: ctx, left: 3 * n}); !errors.Is(err, context.Canceled) {
					return fmt.Errorf("prepared: %w", err)
				}
				return nil
			})
			w.recover(false, before)
		}
	})
	t.Run("while moving into place", func(t *testing.T) {
		for n := 0; n < 16; n += 3 {
			w, set, before, _ := setup(t)
			w.interrupted(set, func(t *transaction) error {
				if err := t.prepare(ctx); err != nil {
					return err
				}
				err := t.apply(&fading{Context: ctx, left: n})
				if err != nil && !errors.Is(err, context.Canceled) || err == nil {
					return errors.Join(errStop, err)
				}
				return nil
			})
			w.recover(false, before)
		}
	})
	t.Run("after the decision", func(t *testing.T) {
		for n := 0; n < 9; n += 2 {
			w, set, _, after := setup(t)
			w.interrupted(set, func(t *transaction) error {
				err := errors.Join(t.prepare(ctx), t.apply(ctx))
				for i := range min(n, len(t.replacements)) {
					err = errors.Join(err, t.removeOld(&t.replacements[i]))
				}
				return err
			})
			w.recover(true, after)
		}
	})
	t.Run("renames lost with the power", func(t *testing.T) {
		w, set, _, after := setup(t)
		w.interrupted(set, func(t *transaction) error {
			err := errors.Join(t.prepare(ctx), t.apply(ctx))
			for i := range t.replacements {
				if r := &t.replacements[i]; !r.modeOnly() && i%2 == 0 {
					dir, base, placeErr := t.locate(r)
					err = errors.Join(err, placeErr, uninstall(r, dir, base))
				}
			}
			return err
		})
		w.recover(true, after)
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		w, set, _, _ := setup(t)
		w.interrupted(set, func(t *transaction) error {
			return errors.Join(t.prepare(ctx), t.apply(&fading{Context: ctx, left: 99}))
		})
		must.Do(t, setState(filepath.Join(w.history.Dir, "ws", "set-1"), recordPrepared))
		w.outside(`echo mine >f`)
		if _, err := w.history.Recover(map[string]string{"ws": w.root}); err == nil || !strings.Contains(err.Error(), `"f"`) {
			t.Errorf("got %v", err)
		}
		if grep(t, w.root, "mine\n") == "" {
			t.Error("somebody's work is lost")
		}
	})
}

// grep returns the name of a file with the given content.
func grep(t *testing.T, root, content string) (name string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if got, err := os.ReadFile(at); err == nil && string(got) == content {
				name = at
			}
		}
		return err
	}))
	return name
}

// committerEnv makes the test binary commit and kill itself during the commit:
// "workspace\nlayers\nhistory\nlooks".
const committerEnv = "TEST_PALYRA_COMMITTER"

// dying is a context that kills its process after a number of checks.
type dying struct {
	context.Context
	left int
}

func (d *dying) Err() error {
	if d.left--; d.left < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // SIGKILL ends the thread before this line
	}
	return nil
}

func committer(args []string) error {
	left := 0
	if _, err := fmt.Sscan(args[3], &left); err != nil {
		return err
	}
	l, err := New(Config{Root: args[0], Name: "ws", Dir: args[1], UID: -1, GID: -1})
	if err != nil {
		return err
	}
	for i := range 4 {
		if err := os.WriteFile(filepath.Join(l.Upper().Name(), fmt.Sprint("f", i)), []byte("new"), 0o600); err != nil {
			return err
		}
	}
	set, err := l.Changes(context.Background())
	if err == nil {
		_, err = l.Commit(&dying{context.Background(), left}, set, Options{History: History{Dir: args[2]}, ID: "x", At: time.Unix(1, 0)})
	}
	return errors.Join(err, l.Close())
}

// TestKilled kills a real process with SIGKILL during a commit.
func TestKilled(t *testing.T) {
	t.Parallel()
	for looks := 0; ; looks++ {
		w := newWorld(t, `echo 1 >f0; echo 1 >f1`)
		before := mustTree(t, w.root)
		layers := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", committerEnv+"="+strings.Join([]string{w.root, layers, w.history.Dir, fmt.Sprint(looks)}, "\n"))
		err := cmd.Run()
		must.Get(w.history.Recover(map[string]string{"ws": w.root}))(t)
		must.Do(t, Sweep(layers))
		if left, err := os.ReadDir(layers); err != nil || len(left) != 0 {
			t.Errorf("layers were left: %v (%v)", left, err)
		}
		now := mustTree(t, w.root)
		if err == nil {
			if looks < 10 || differences(before, now) == "" {
				t.Errorf("committed after %d looks", looks)
			}
			return
		}
		if diff := differences(before, now); diff != "" {
			t.Fatalf("killed after %d looks:\n%s", looks, diff)
		}
	}
}
