package overlay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// FuzzLayer builds a workspace and a layer of unusual entries from bytes. For any bytes, no
// file outside changes. The commit equals the layer, because a second change set is empty.
// Undoing restores the workspace.
func FuzzLayer(f *testing.F) {
	for _, seed := range []string{"", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09", "abcdefghijklmnopqrstuvwxyz", "\x10\x80\x21\x93\x44\xa5\x06\xb7\x18\xc9\x2a\xdb",
		"\x81\x00\x01\x91\x02\x02\xa1\x03\x03\x84\x01\x05\x85\x02\x01", "\x03\x00\x83\x01\x83\x02\x13\x00\x93\x01\x8a\x00\x8b\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		top := t.TempDir()
		root, layers := filepath.Join(top, "root"), filepath.Join(top, "layers")
		for _, err := range []error{os.Mkdir(root, 0o755), os.Mkdir(layers, 0o700)} {
			must.Do(t, err)
		}
		canary := newCanary(t, top)
		l := must.Get(New(Config{Root: root, Name: "ws", Dir: layers, UID: -1, GID: -1}))(t)
		for i := 0; i+2 < len(script) && i < 300; i += 3 {
			side := root
			if script[i]&0x80 != 0 {
				side = l.Upper().Name()
			}
			must.Do(t, oddEntry(side, canary, script[i]&0x7f, script[i+1], script[i+2]))
		}
		must.Do(t, l.Begin())
		before := mustTree(t, root)
		layered(t, l, root, filepath.Join(top, "undo"), before)
		must.Do(t, l.Close())
		left, err := os.ReadDir(layers)
		if err != nil || len(left) != 0 {
			t.Fatalf("left %v (%v)", left, err)
		}
	})
}

// layered computes changes, commits, computes them again and undoes the commit.
func layered(t *testing.T, l *Layer, root, undo string, before tree) {
	t.Helper()
	set, err := l.Changes(t.Context())
	if err != nil {
		if reason.Of(err) == reason.Internal {
			t.Fatal(err)
		}
		return
	}
	_ = set.Diff(10_000)
	_ = set.Facts()
	o := Options{History: History{Dir: undo}, ID: "a"}
	if _, err = l.Commit(t.Context(), set, o); err != nil {
		if reason.Of(err) != reason.CommitRefused {
			t.Fatal(err)
		}
		if diff := differences(before, mustTree(t, root)); diff != "" {
			t.Fatalf("refused, and changed:\n%s", diff)
		}
		return
	}
	must.Do(t, l.Begin())
	again := must.Get(l.Changes(t.Context()))(t)
	for _, c := range again.Changes {
		if c.Was != c.Is {
			t.Errorf("%q is %+v and should be %+v", c.Path, c.Was, c.Is)
		}
	}
	if len(set.Changes) == 0 {
		return
	}
	o.ID = "b"
	must.Get(o.History.Undo(context.Background(), root, "ws", "a", o))(t)
	if diff := differences(before, mustTree(t, root)); diff != "" {
		t.Fatalf("undone, and not restored:\n%s", diff)
	}
}

// oddEntry creates one entry below side, or none if the entry is impossible. Earlier entries
// may be links to any place. The directory is therefore opened through an os.Root, and no call
// follows a link at the name in it.
func oddEntry(side, canary string, kind, where, what byte) error {
	root, err := os.OpenRoot(side)
	if err != nil {
		return err
	}
	defer root.Close()
	names := []string{"a", "b", ".git", "HEAD", "objects", "refs", "Makefile", "\xff", "e\u202e", "package.json"}
	parent, base := ".", names[int(where&0xf)%len(names)]
	if where&0x10 != 0 {
		parent, base = base, names[int(where>>5)%len(names)]
	}
	if kind %= 13; kind == 3 || kind == 4 {
		_ = root.MkdirAll(filepath.Join(parent, base), 0o755)
		return nil
	}
	if dir, err := root.OpenFile(parent, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0); err == nil {
		oddIn(int(dir.Fd()), base, canary, kind, what)
		return dir.Close()
	}
	return nil
}

// oddIn creates one entry in a directory.
func oddIn(dir int, base, canary string, kind, what byte) {
	// Attributes can be set only by name, and this name cannot be redirected.
	pinned := fmt.Sprintf("/proc/self/fd/%d/%s", dir, base)
	switch kind {
	case 0, 1:
		writeNow(dir, base, []byte{what})
	case 2:
		writeNow(dir, base, nil)
	case 5:
		_ = unix.Symlinkat([]string{canary, "..", "../canary", "a", "../../canary", "\xff\n"}[int(what)%6], dir, base)
	case 6:
		_ = unix.Mknodat(dir, base, unix.S_IFCHR, 0) // in a layer, a whiteout
	case 7:
		_ = unix.Mknodat(dir, base, unix.S_IFIFO|0o600, 0)
	case 8:
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
			_ = unix.Fchmodat(dir, base, uint32(what)<<3&0o7777|0o700, 0)
		}
	case 9:
		_ = unix.Linkat(dir, base, dir, base+"2", 0)
	case 10:
		_ = unix.Lsetxattr(pinned, "user.overlay.opaque", []byte("yxz")[int(what)%3:int(what)%3+1], 0)
	case 11:
		_ = unix.Lsetxattr(pinned, "user.overlay.whiteout", []byte("y"), 0)
	case 12:
		_ = unix.Lsetxattr(pinned, "user.overlay."+[]string{"redirect", "origin", "metacopy"}[int(what)%3], []byte("x"), 0)
	}
}

// writeNow writes a file. It does not block on a FIFO of that name and does not follow a link.
func writeNow(dir int, base string, content []byte) {
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, content)
	_ = unix.Close(fd)
}
