package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestConflict changes the workspace between the change set and its commit. No change is
// committed, and the concurrent change stays.
func TestConflict(t *testing.T) {
	t.Parallel()
	const before = `echo 1 >f; ln -s f l; mkdir -p d/e; echo 2 >d/e/g; mkdir -p m k/s; echo 3 >gone; echo 4 >k/s/f`
	const script = `echo new >k/s/f; echo new >k/s/g; echo new >>f; ln -sf g l; rm -r d; echo new >n; chmod 700 m; mkdir t; echo x >t/u; rm gone; mkdir gone; echo y >gone/z`
	for name, meanwhile := range map[string]string{
		"file written":          `echo other >f`,
		"same size":             `echo 9 >f; touch -d @1 f`,
		"file replaced":         `rm f; mkdir f`,
		"file deleted":          `rm f`,
		"file mode":             `chmod 600 f`,
		"link moved":            `ln -sf x l`,
		"new name taken":        `echo other >n`,
		"new name is a link":    `ln -s "$CANARY" n`,
		"in a deleted tree":     `echo other >d/e/h`,
		"deleted tree gone":     `rm -r d`,
		"deleted file changed":  `echo other >d/e/g`,
		"directory mode":        `chmod 711 m`,
		"directory taken":       `mkdir t`,
		"in a replaced file":    `echo other >gone`,
		"directory is a link":   `rm -r d; ln -s m d`,
		"deleted directory new": `mkdir d/x`,
		"a link in the way":     `mv k k2; ln -s k2 k`,
		"a link out":            `mv k ../k2; ln -s ../k2 k`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, before)
			w.inside("sh", script)
			set := w.changes()
			w.outside(meanwhile)
			there := mustTree(t, w.root)
			_, err := w.layer.Commit(t.Context(), set, w.options())
			if reason.Of(err) != reason.CommitConflict {
				t.Errorf("got %v", err)
			}
			if diff := differences(there, mustTree(t, w.root)); diff != "" {
				t.Errorf("the workspace was changed:\n%s", diff)
			}
			if kept, err := w.history.List("ws"); err != nil || len(kept) != 0 {
				t.Errorf("kept %v (%v)", kept, err)
			}
		})
	}
}

// TestLateConflict changes the workspace after the check and before the renames, because the
// commit checks the replaced files again.
func TestLateConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo 1 >a; echo 1 >z; mkdir d; echo 1 >d/f`)
	w.inside("sh", `echo 2 >a; echo 2 >z; rm -r d; echo 2 >n`)
	for name, late := range map[string]string{"file": `echo 9 >z`, "tree": `echo 9 >d/g`, "new": `echo 9 >n`, "gone": `rm z`, "link": `ln -sf "$CANARY" z`} {
		t.Run(name, func(t *testing.T) {
			w.outside(`rm -rf a z d n; echo 1 >a; echo 1 >z; mkdir d; echo 1 >d/f`)
			must.Do(t, w.layer.Begin())
			set := w.changes()
			var there tree
			err := control(w.layer.upper, func(upper int) error {
				from := layerSource{dirs: dirCache{root: upper, fd: -1}}
				defer from.dirs.close()
				o := w.options()
				_, err := commit(t.Context(), w.layer.lower, set.Changes, func(i int, c *Change) (io.Reader, func(), error) {
					// z is the last file that is built; all others were checked before.
					if c.Path == "z" {
						w.outside(late)
						there = mustTree(t, w.root)
					}
					return from.open(i, c)
				}, set.summary(o), "", o.History)
				return err
			})
			if reason.Of(err) != reason.CommitConflict {
				t.Errorf("got %v", err)
			}
			for name := range there {
				if raw, _ := bytesOf("", name); strings.Contains(raw, ".palyra-") {
					delete(there, name)
				}
			}
			if diff := differences(there, mustTree(t, w.root)); diff != "" {
				t.Errorf("the workspace was changed:\n%s", diff)
			}
		})
	}
}

// TestChangedLayer verifies that a layer which differs from its change set is not committed.
func TestChangedLayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo 1 >f`)
	w.inside("sh", `echo 2 >f; echo 3 >g`)
	set := w.changes()
	before := mustTree(t, w.root)
	must.Do(t, os.WriteFile(filepath.Join(w.layer.Upper().Name(), "g"), []byte("4\n"), 0o644))
	if _, err := w.layer.Commit(t.Context(), set, w.options()); reason.Of(err) != reason.CommitConflict {
		t.Errorf("got %v", err)
	}
	if diff := differences(before, mustTree(t, w.root)); diff != "" {
		t.Error(diff)
	}
	w.renew()
	if _, err := w.layer.Commit(t.Context(), set, w.options()); err == nil {
		t.Error("another layer's change set was committed")
	}
}

// TestTwoAtOnce commits two overlapping change sets concurrently. Exactly one of them succeeds
// completely.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		w := newWorld(t, `for i in $(seq 20); do echo 0 >f$i; done`)
		var sets [2]Set
		var layers [2]*Layer
		for i := range sets {
			w.renew()
			for n := 1; n <= 20; n++ {
				w.write(w.layer.Upper().Name(), fmt.Sprint("f", n), fmt.Sprintf("new%d\n", i))
			}
			sets[i], layers[i] = w.changes(), w.layer
		}
		var errs [2]error
		var wait sync.WaitGroup
		for i := range sets {
			o := w.options()
			wait.Go(func() { _, errs[i] = layers[i].Commit(t.Context(), sets[i], o) })
		}
		wait.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("got %v and %v", errs[0], errs[1])
		}
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if code := reason.Of(errs[1-winner]); code != reason.CommitConflict {
			t.Errorf("the loser got %v", errs[1-winner])
		}
		for i := 1; i <= 20; i++ {
			if got := read(t, w.root, fmt.Sprintf("f%d", i)); got != fmt.Sprintf("new%d\n", winner) {
				t.Fatalf("f%d is %q", i, got)
			}
		}
		leftovers(t, w)
	}
}

// TestUndo undoes change sets. An undo is refused if a file was changed since the commit.
func TestUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo 1 >f; mkdir d; echo 2 >d/g; ln -s f l`)
	before := mustTree(t, w.root)
	w.inside("sh", `echo 3 >f; rm -r d; ln -sf x l; mkdir -p n/o; echo 4 >n/o/p; chmod 755 f`)
	applied := w.commit(w.changes())
	after := mustTree(t, w.root)
	undo := func(id string) (Applied, error) {
		return w.history.Undo(t.Context(), w.root, "ws", id, w.options())
	}
	for _, meanwhile := range []string{`echo other >n/o/q`, `echo other >f`, `mkdir d`} {
		w.outside(meanwhile)
		there := mustTree(t, w.root)
		if _, err := undo(applied.Summary.ID); reason.Of(err) != reason.CommitConflict {
			t.Errorf("%s: got %v", meanwhile, err)
		}
		if diff := differences(there, mustTree(t, w.root)); diff != "" {
			t.Errorf("%s:\n%s", meanwhile, diff)
		}
		w.outside(`rm -rf n/o/q d; echo 3 >f`)
	}
	undone := must.Get(undo(applied.Summary.ID))(t)
	if diff := differences(before, mustTree(t, w.root)); diff != "" {
		t.Error(diff)
	}
	if _, err := undo(applied.Summary.ID); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a second undo: %v", err)
	}
	must.Get(undo(undone.Summary.ID))(t)
	if diff := differences(after, mustTree(t, w.root)); diff != "" {
		t.Errorf("undoing the undo:\n%s", diff)
	}
	list, err := w.history.List("ws")
	if err != nil || len(list) != 3 || list[2].State != RecordUndone || list[1].State != RecordUndone || list[0].State != RecordCommitted || list[1].Undoes != list[2].ID {
		t.Errorf("history: %+v (%v)", list, err)
	}
	for _, id := range []string{"../ws", "", "none", "set-1/../set-1"} {
		if _, err := undo(id); reason.Of(err) != reason.NotFound {
			t.Errorf("undo of %q: %v", id, err)
		}
	}
	d, err := w.history.Get("ws", applied.Summary.ID)
	if err != nil || len(d.Changes) != d.Added+d.Modified+d.Deleted || !strings.Contains(d.Diff, "-1\n+3\n") {
		t.Errorf("got %+v (%v)", d, err)
	}
}

// TestHistoryIsBounded verifies that the oldest change sets are dropped.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `:`)
	for i := range keptSets + 3 {
		w.renew()
		must.Do(t, os.WriteFile(filepath.Join(w.layer.Upper().Name(), fmt.Sprint("f", i)), []byte("x"), 0o644))
		w.commit(w.changes())
	}
	list, err := w.history.List("ws")
	if err != nil || len(list) != keptSets || list[0].ID != fmt.Sprintf("set-%d", keptSets+3) {
		t.Errorf("%d are kept (%v)", len(list), err)
	}
	if got, size := offsets([]Change{{Was: State{Type: File, Size: keptBytes}}, {Was: State{Type: File, Size: 1}}}); size != -1 || got[0] != -1 {
		t.Errorf("too much is kept: %v %d", got, size)
	}
	if (Summary{State: RecordCommitted, Kept: -1}).Undoable() {
		t.Error("what is not kept can be undone")
	}
}

// TestCancelled ends a commit at every check of its context. Each commit is complete or has no
// effect.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for looks := 0; ; looks++ {
		w := newWorld(t, `for i in 1 2 3; do echo 0 >f$i; done; mkdir d; echo 1 >d/e`)
		before := mustTree(t, w.root)
		up := w.layer.Upper().Name()
		for _, name := range []string{"f1", "f2", "f3", "f4", "n/o"} {
			w.write(up, name, "1\n")
		}
		whiteoutAt(t, filepath.Join(up, "d"))
		set := w.changes()
		ctx := &fading{Context: t.Context(), left: looks}
		_, err := w.layer.Commit(ctx, set, w.options())
		if err == nil {
			if looks < 10 || read(t, w.root, "f1")+read(t, w.root, "n/o") != "1\n1\n" {
				t.Errorf("committed after %d looks", looks)
			}
			return
		}
		if diff := differences(before, mustTree(t, w.root)); diff != "" || !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks (%v):\n%s", looks, err, diff)
		}
	}
}

// fading is a context that is cancelled after a number of checks.
type fading struct {
	context.Context
	left int
}

func (f *fading) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestOwner verifies that a daemon which is root preserves the owners of files.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // an ordinary user owns all its files
	}
	w := newWorld(t, `echo 1 >f; chown 1234:1235 . f`)
	w.inside("sh", `mkdir -p n/o; echo 1 >n/o/p; ln -s x n/l`)
	up := w.layer.Upper().Name()
	must.Do(t, os.WriteFile(filepath.Join(up, "f"), []byte("2"), 0o600))
	w.commit(w.changes())
	for _, name := range []string{"f", "n", "n/o", "n/o/p", "n/l"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(w.root, name), &st); err != nil || st.Uid != 1234 || st.Gid != 1235 {
			t.Errorf("%s belongs to %d:%d (%v)", name, st.Uid, st.Gid, err)
		}
	}
}

// TestManyFiles verifies that a commit needs a limited number of file descriptors. It has more
// files than the process may open.
//
// Not parallel: it lowers the limit of open files of the process.
func TestManyFiles(t *testing.T) {
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	w := newWorld(t, `for i in $(seq 300); do mkdir d$i; echo 1 >d$i/f; done`)
	shown := w.inside("sh", `for i in $(seq 300); do echo 2 >d$i/f; echo 2 >d$i/g; done`)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}))
	start := time.Now()
	set := w.changes()
	w.commit(set)
	took := time.Since(start)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	t.Logf("%d changes in %s", len(set.Changes), took)
	if diff := differences(shown, mustTree(t, w.root)); diff != "" {
		t.Error(diff)
	}
}
