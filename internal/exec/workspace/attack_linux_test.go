package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// openUnsafely opens a path in the vulnerable way. It is the negative control: each of the
// following attacks succeeds against it.
func openUnsafely(w world, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(w.inside, name))
	return string(data), err
}

func TestSymlinksOutAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "real", "f"), "inside")
	link(t, filepath.Join(w.outside, "secret"), filepath.Join(w.inside, "absolute"))
	link(t, "../outside/secret", filepath.Join(w.inside, "relative"))
	link(t, "../outside", filepath.Join(w.inside, "dir"))
	link(t, "dir", filepath.Join(w.inside, "chain1"))
	link(t, "chain1", filepath.Join(w.inside, "chain2"))
	link(t, "/proc/self/root", filepath.Join(w.inside, "magicroot"))
	link(t, "/proc/self/cwd", filepath.Join(w.inside, "magiccwd"))
	attacks := []string{"absolute", "relative", "dir/secret", "chain2/secret", "real/../../outside/secret", "magicroot" + filepath.Join(w.outside, "secret")}
	for _, name := range attacks {
		t.Run(name, func(t *testing.T) {
			if got, err := openUnsafely(w, name); err != nil || got != "secret" {
				t.Fatalf("negative control: the attack does not work at all: %q, %v", got, err)
			}
			if c, err := w.root.ReadFile(context.Background(), name, 0, -1); reason.Of(err) != reason.WorkspaceScope {
				t.Errorf("read %q, %v", c.Data, err)
			}
			if _, err := w.root.Resolve(name); reason.Of(err) != reason.WorkspaceScope {
				t.Errorf("resolve: %v", err)
			}
			if _, err := apply(w, Change{Path: name, Was: digest("secret"), Content: []byte("evil")}); reason.Of(err) != reason.WorkspaceScope {
				t.Errorf("write: %v", err)
			}
		})
	}
	if _, err := w.root.ReadDir("magiccwd"); reason.Of(err) != reason.WorkspaceScope {
		t.Errorf("magic link: %v", err)
	}
	for _, name := range []string{"dir/new", "chain2/new", "dir/deep/new"} {
		if _, err := apply(w, Change{Path: name, Content: []byte("evil")}); reason.Of(err) != reason.WorkspaceScope {
			t.Errorf("create %s: %v", name, err)
		}
	}
	if read(t, filepath.Join(w.outside, "secret")) != "secret" {
		t.Error("the file outside was changed")
	}
	if entries, _ := os.ReadDir(w.outside); len(entries) != 1 {
		t.Errorf("files were made outside: %v", entries)
	}
}

func TestSymlinksInsideAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "real", "f"), "inside")
	link(t, "real", filepath.Join(w.inside, "dir"))
	link(t, "../dir/f", filepath.Join(w.inside, "real", "g"))
	c, err := w.root.ReadFile(context.Background(), "dir/g", 0, -1)
	if err != nil || string(c.Data) != "inside" || c.Info.Path != "real/f" {
		t.Errorf("%+v, %v", c, err)
	}
	if got, err := w.root.Resolve("dir/new/file"); err != nil || got != "real/new/file" {
		t.Errorf("resolve: %q, %v", got, err)
	}
	// A write changes the target file, and the link stays a link.
	must.Get(apply(w, Change{Path: "real/g", Was: digest("inside"), Content: []byte("new")}))(t)
	info, err := os.Lstat(filepath.Join(w.inside, "real", "g"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 || read(t, filepath.Join(w.inside, "real", "f")) != "new" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestProtectedThroughALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, ".git", "hooks", "x"), "")
	link(t, ".git/hooks", filepath.Join(w.inside, "innocent"))
	if _, err := apply(w, Change{Path: "innocent/pre-commit", Content: []byte("evil")}); reason.Of(err) != reason.ProtectedPath {
		t.Errorf("got %v", err)
	}
}

func TestDanglingLinkIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link(t, "nowhere", filepath.Join(w.inside, "dangling"))
	link(t, filepath.Join(w.outside, "new"), filepath.Join(w.inside, "danglingout"))
	for _, name := range []string{"dangling", "danglingout", "dangling/x"} {
		if _, err := apply(w, Change{Path: name, Content: []byte("x")}); reason.Of(err) != reason.WorkspaceScope {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHardLinkIsNotWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := filepath.Join(w.inside, "alias")
	if err := os.Link(filepath.Join(w.outside, "secret"), name); err != nil {
		t.Skip("no hard links here")
	}
	if _, err := apply(w, Change{Path: "alias", Was: digest("secret"), Content: []byte("evil")}); reason.Of(err) != reason.WorkspaceScope {
		t.Errorf("write: %v", err)
	}
	if _, err := apply(w, Change{Path: "alias", Was: digest("secret"), Delete: true}); reason.Of(err) != reason.WorkspaceScope {
		t.Errorf("delete: %v", err)
	}
	// Negative control: a write in place reaches the inode outside.
	if err := os.WriteFile(name, []byte("evil"), 0o644); err != nil || read(t, filepath.Join(w.outside, "secret")) != "evil" {
		t.Errorf("the attack does not work at all: %v", err)
	}
	// The file has one link again after the other name is removed.
	must.Do(t, os.Remove(filepath.Join(w.outside, "secret")))
	if _, err := apply(w, Change{Path: "alias", Was: digest("evil"), Content: []byte("fine")}); err != nil {
		t.Error(err)
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Do(t, unix.Mkfifo(filepath.Join(w.inside, "fifo"), 0o644))
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(fd)
	dir := must.Get(os.Open(w.inside))(t)
	defer dir.Close()
	// The length of a socket's path is limited.
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", dir.Fd())}))
	names := []string{"fifo", "socket"}
	if err := unix.Mknod(filepath.Join(w.inside, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err == nil {
		names = append(names, "device")
	}
	for _, name := range names {
		// Opening a FIFO for reading would block forever.
		if _, err := w.root.ReadFile(context.Background(), name, 0, 1); reason.Of(err) != reason.ToolFailed {
			t.Errorf("read %s: %v", name, err)
		}
		if _, err := apply(w, Change{Path: name, Was: digest(""), Content: []byte("x")}); reason.Of(err) != reason.ToolFailed {
			t.Errorf("write %s: %v", name, err)
		}
	}
}

func TestSetuidIsStripped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := filepath.Join(w.inside, "su")
	write(t, name, "old")
	must.Do(t, unix.Chmod(name, 0o6755))
	must.Get(apply(w, Change{Path: "su", Was: digest("old"), Content: []byte("new")}))(t)
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestSwappedSymlink constantly swaps a directory with a link to the outside, while files below
// it are read and written.
func TestSwappedSymlink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "d", "secret"), "inside")
	link(t, w.outside, filepath.Join(w.inside, "l"))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		d, l := filepath.Join(w.inside, "d"), filepath.Join(w.inside, "l")
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
			}
		}
	})
	leaked, reads := 0, 0
	// On one processor the other goroutine runs only occasionally.
	for n := 0; n < 2000 || (leaked == 0 || reads == 0) && n < 1_000_000; n++ {
		if got, _ := openUnsafely(w, "d/secret"); got == "secret" {
			leaked++
		}
		c, err := w.root.ReadFile(context.Background(), "d/secret", 0, -1)
		if err == nil {
			reads++
		}
		if string(c.Data) == "secret" {
			t.Fatal("the file outside was read")
		}
	}
	for range 300 {
		_, err := apply(w, Change{Path: "d/new", Content: []byte("x")})
		if err == nil {
			_, err = apply(w, Change{Path: "d/new", Was: digest("x"), Delete: true})
		}
		_ = err
	}
	close(stop)
	swaps.Wait()
	if leaked == 0 {
		t.Error("negative control: the swap never hit a careless reader, so this test shows nothing")
	}
	if reads == 0 {
		t.Error("no read succeeded, so this test shows nothing")
	}
	if entries, _ := os.ReadDir(w.outside); len(entries) != 1 {
		t.Errorf("files were made outside: %v", entries)
	}
}

// TestConcurrentEditsAreNotLost replaces the file between the check and the exchange, by rename
// and in place.
func TestConcurrentEditsAreNotLost(t *testing.T) {
	t.Parallel()
	edits := map[string]func(t *testing.T, name string){
		"by rename": func(t *testing.T, name string) {
			write(t, name+".swp", "edited")
			must.Do(t, os.Rename(name+".swp", name))
		},
		"in place": func(t *testing.T, name string) { write(t, name, "edited") },
		"removed": func(t *testing.T, name string) {
			must.Do(t, os.Remove(name))
		},
		"linked": func(t *testing.T, name string) {
			must.Do(t, os.Link(name, name+".link"))
		},
		"none": func(*testing.T, string) {},
	}
	for what, edit := range edits {
		for _, remove := range []bool{false, true} {
			t.Run(what+map[bool]string{true: ", delete"}[remove], func(t *testing.T) {
				w := newWorld(t)
				name := filepath.Join(w.inside, "f")
				write(t, name, "old")
				tx := &transaction{root: w.root}
				defer tx.close()
				must.Do(t, tx.prepare(context.Background(), []Change{{Path: "f", Was: digest("old"), Content: []byte("new"), Delete: remove}}))
				edit(t, name)
				before, _ := os.ReadFile(name)
				err := tx.stages[0].commit()
				if what == "none" {
					// Negative control: without an edit the commit succeeds.
					must.Do(t, err)
					return
				}
				if code := reason.Of(err); code != reason.PatchConflict && code != reason.WorkspaceScope {
					t.Errorf("commit: %v", err)
				}
				must.Check(t, tx.rollback())
				after, _ := os.ReadFile(name)
				if string(after) != string(before) {
					t.Errorf("the edit was lost: %q, then %q", before, after)
				}
				noLeftovers(t, w.inside)
			})
		}
	}
}

func TestCreateDoesNotOverwriteALateFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := &transaction{root: w.root}
	defer tx.close()
	must.Do(t, tx.prepare(context.Background(), []Change{{Path: "f", Content: []byte("new")}}))
	write(t, filepath.Join(w.inside, "f"), "late")
	if err := tx.stages[0].commit(); reason.Of(err) != reason.PatchConflict {
		t.Errorf("commit: %v", err)
	}
	if err := tx.rollback(); err != nil || read(t, filepath.Join(w.inside, "f")) != "late" {
		t.Errorf("rollback: %v", err)
	}
	noLeftovers(t, w.inside)
}

// TestRollbackOfCommittedStages rolls back changes that are already in place.
func TestRollbackOfCommittedStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "a"), "a")
	write(t, filepath.Join(w.inside, "b"), "b")
	tx := &transaction{root: w.root}
	defer tx.close()
	must.Do(t, tx.prepare(context.Background(), []Change{
		{Path: "a", Was: digest("a"), Content: []byte("A")}, {Path: "b", Was: digest("b"), Delete: true}, {Path: "n/c", Content: []byte("c")},
	}))
	for _, s := range tx.stages {
		must.Do(t, s.commit())
	}
	if read(t, filepath.Join(w.inside, "a")) != "A" {
		t.Error("commit did nothing")
	}
	must.Do(t, tx.rollback())
	if read(t, filepath.Join(w.inside, "a")) != "a" || read(t, filepath.Join(w.inside, "b")) != "b" {
		t.Error("the old content is not back")
	}
	if _, err := os.Stat(filepath.Join(w.inside, "n")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the new directory is still there")
	}
	noLeftovers(t, w.inside)
}

func TestWorkspaceThatBecameALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := &Set{byName: map[string]Declaration{"d": {Name: "d", Path: w.inside}}, names: []string{"d"}}
	must.Do(t, os.Rename(w.inside, w.inside+".was"))
	link(t, w.outside, w.inside)
	if root, err := set.Open("d"); reason.Of(err) != reason.WorkspaceScope {
		t.Errorf("opened %v, %v", root, err)
	}
}

func TestNamesThatAreNotText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "a\xffb"), "x")
	entries, err := w.root.ReadDir(".")
	if err != nil || len(entries) != 1 || !strings.Contains(entries[0].Path, "\xff") {
		t.Errorf("%v, %v", entries, err)
	}
}
