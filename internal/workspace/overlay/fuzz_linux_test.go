package overlay

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
)

// FuzzLayer builds a workspace and a layer of odd entries from bytes. Whatever
// they are, nothing outside changes; what was committed is what the layer
// showed, because looking again finds nothing; and undoing restores the
// workspace.
func FuzzLayer(f *testing.F) {
	for _, seed := range []string{"", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09", "abcdefghijklmnopqrstuvwxyz", "\x10\x80\x21\x93\x44\xa5\x06\xb7\x18\xc9\x2a\xdb",
		"\x81\x00\x01\x91\x02\x02\xa1\x03\x03\x84\x01\x05\x85\x02\x01", "\x03\x00\x83\x01\x83\x02\x13\x00\x93\x01\x8a\x00\x8b\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		top := t.TempDir()
		canary := filepath.Join(top, "canary")
		root, layers := filepath.Join(top, "root"), filepath.Join(top, "layers")
		for _, err := range []error{os.Mkdir(root, 0o755), os.Mkdir(layers, 0o700), os.WriteFile(canary, []byte("x"), 0o644)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		l, err := New(Config{Root: root, Name: "ws", Dir: layers, UID: -1, GID: -1})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+2 < len(script) && i < 300; i += 3 {
			side := root
			if script[i]&0x80 != 0 {
				side = l.Upper().Name()
			}
			oddEntry(side, script[i]&0x7f, script[i+1], script[i+2])
		}
		if err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		before := mustTree(t, root)
		layered(t, l, root, filepath.Join(top, "undo"), before)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(layers)
		if err != nil || len(left) != 0 || read(t, canary) != "x" {
			t.Fatalf("left %v (%v)", left, err)
		}
	})
}

// layered looks, commits, looks again and undoes.
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
	if err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	again, err := l.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range again.Changes {
		if c.Was != c.Is {
			t.Errorf("%q is %+v and should be %+v", c.Path, c.Was, c.Is)
		}
	}
	if len(set.Changes) == 0 {
		return
	}
	o.ID = "b"
	if _, err := o.History.Undo(context.Background(), root, "ws", "a", o); err != nil {
		t.Fatal(err)
	}
	if diff := differences(before, mustTree(t, root)); diff != "" {
		t.Fatalf("undone, and not restored:\n%s", diff)
	}
}

// oddEntry makes one entry. What is not possible is not made.
func oddEntry(side string, kind, where, what byte) {
	names := []string{"a", "b", ".git", "HEAD", "objects", "refs", "Makefile", "\xff", "e\u202e", "package.json"}
	name := filepath.Join(side, names[int(where&0xf)%len(names)])
	if where&0x10 != 0 {
		name = filepath.Join(name, names[int(where>>5)%len(names)])
	}
	switch kind % 13 {
	case 0, 1:
		writeNow(name, []byte{what})
	case 2:
		writeNow(name, nil)
	case 3, 4:
		_ = os.MkdirAll(name, 0o755)
	case 5:
		_ = os.Symlink([]string{"/etc/passwd", "..", "../canary", "a", "../../canary", "\xff\n"}[int(what)%6], name)
	case 6:
		_ = unix.Mknod(name, unix.S_IFCHR, 0) // in a layer, a whiteout
	case 7:
		_ = unix.Mkfifo(name, 0o600)
	case 8:
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink == 0 {
			_ = unix.Chmod(name, uint32(what)<<3&0o7777|0o700)
		}
	case 9:
		_ = os.Link(name, name+"2")
	case 10:
		_ = unix.Lsetxattr(name, "user.overlay.opaque", []byte("yxz")[int(what)%3:int(what)%3+1], 0)
	case 11:
		_ = unix.Lsetxattr(name, "user.overlay.whiteout", []byte("y"), 0)
	case 12:
		_ = unix.Lsetxattr(name, "user.overlay."+[]string{"redirect", "origin", "metacopy"}[int(what)%3], []byte("x"), 0)
	}
}

// writeNow writes a file. A FIFO of that name does not make it wait.
func writeNow(name string, content []byte) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return
	}
	_, _ = f.Write(content)
	_ = f.Close()
}
