//go:build linux || darwin

package localsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// private returns a directory with a path that is short enough for a socket.
func private(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "sock"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	return dir
}

// accepted connects to l and returns the peer of the accepted connection.
func accepted(t *testing.T, l *Listener) Peer {
	t.Helper()
	client := must.Get(net.Dial("unix", l.Addr().String()))(t)
	defer client.Close()
	server := must.Get(l.Accept())(t)
	defer server.Close()
	p, ok := PeerOf(ConnContext(t.Context(), server))
	if !ok {
		t.Fatal("nobody is at the other end")
	}
	return p
}

func TestOwnerIsAccepted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(private(t), "s")
	l := must.Get(Listen(path))(t)
	defer l.Close()
	if info := must.Get(os.Lstat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
	if p := accepted(t, l); p.Refused != nil || p.UID != int64(os.Geteuid()) {
		t.Errorf("the owner is %v: %v", p, p.Refused)
	}
}

// TestOthersAreRefused: a peer that is not certainly the owner is refused. Control: the owner
// as reported by the kernel, as in TestOwnerIsAccepted.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	own := int64(os.Geteuid())
	for name, c := range map[string]struct {
		found   credentials
		err     error
		refused bool
	}{
		"the owner":                {found: credentials{uid: own, pid: 7}},
		"another uid":              {found: credentials{uid: own + 1, pid: 7}, refused: true},
		"root beside another":      {found: credentials{uid: own - 1, pid: 7}, refused: true},
		"the uid nobody knows":     {found: credentials{uid: 65534, pid: 7}, refused: true},
		"another pid namespace":    {found: credentials{uid: own}, refused: true},
		"another user namespace":   {found: credentials{uid: own, pid: 7, foreign: true}, refused: true},
		"a kernel that says no":    {found: credentials{uid: own, pid: 7}, err: errors.ErrUnsupported, refused: true},
		"a kernel that says zero":  {err: errors.ErrUnsupported, refused: true},
		"no process, and the rest": {refused: true},
	} {
		l := &Listener{owner: own, look: func(net.Conn) (credentials, error) { return c.found, c.err }}
		p := l.peerOf(nil)
		if (p.Refused != nil) != c.refused {
			t.Errorf("%s: %v", name, p.Refused)
		}
		if p.Refused != nil && reason.Of(p.Refused) != reason.Unauthenticated {
			t.Errorf("%s: %v", name, reason.Of(p.Refused))
		}
	}
}

// TestRoot: root in palyrad's own pid namespace is recognized, and is the operator only if
// palyrad runs as root.
func TestRoot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner         int64
		found         credentials
		root, refused bool
	}{
		"root":                  {1000, credentials{uid: 0, pid: 7, near: true}, true, true},
		"root, and of palyrad":  {0, credentials{uid: 0, pid: 7, near: true}, true, false},
		"uid 0 in a container":  {1000, credentials{uid: 0, pid: 7}, false, true},
		"the owner":             {1000, credentials{uid: 1000, pid: 7, near: true}, false, false},
		"root, of whom no more": {0, credentials{uid: 0, pid: 7}, false, false},
	} {
		l := &Listener{owner: c.owner, look: func(net.Conn) (credentials, error) { return c.found, nil }}
		if p := l.peerOf(nil); p.Root() != c.root || (p.Refused != nil) != c.refused || l.OwnerConnected() == c.refused {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestExistingFile: a socket left by a killed palyrad is replaced; any other file is kept, and the
// start is refused.
func TestExistingFile(t *testing.T) {
	t.Parallel()
	t.Run("stale", func(t *testing.T) {
		path := filepath.Join(private(t), "s")
		left := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
		left.SetUnlinkOnClose(false)
		must.Do(t, left.Close())
		l := must.Get(Listen(path))(t)
		defer l.Close()
		accepted(t, l)
	})
	for name, put := range map[string]func(path, victim string) error{
		"a file":               func(path, _ string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a directory":          func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a link to a file":     func(path, victim string) error { return os.Symlink(victim, path) },
		"a link that dangles":  func(path, victim string) error { return os.Symlink(victim+"-not", path) },
		"a link to the socket": func(path, victim string) error { return os.Symlink(victim+"-socket", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := private(t)
			path, victim := filepath.Join(dir, "s"), filepath.Join(dir, "victim")
			must.Do(t, os.WriteFile(victim, []byte("kept"), 0o600))
			other := must.Get(net.Listen("unix", victim+"-socket"))(t)
			defer other.Close()
			must.Do(t, put(path, victim))
			was := must.Get(os.Lstat(path))(t)
			if _, err := Listen(path); reason.Of(err) != reason.ConfigInvalid {
				t.Errorf("listening said %v", err)
			}
			if is := must.Get(os.Lstat(path))(t); !os.SameFile(was, is) {
				t.Error("it was replaced")
			}
			if string(must.Get(os.ReadFile(victim))(t)) != "kept" {
				t.Error("the victim was written")
			}
		})
	}
}

func TestDirectoryHasToBePrivate(t *testing.T) {
	t.Parallel()
	dir := private(t)
	must.Do(t, os.Chmod(dir, 0o750))
	if _, err := Listen(filepath.Join(dir, "s")); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a directory that others may enter: %v", err)
	}
	long := filepath.Join(private(t), strings.Repeat("d", 120))
	must.Do(t, os.Mkdir(long, 0o700))
	if _, err := Listen(filepath.Join(long, "s")); !errors.Is(err, ErrNotOffered) {
		t.Errorf("a path that no address holds: %v", err)
	}
}

// TestShared: a socket for agents of several users is in a directory that other users cannot
// write to. It accepts the listed users, and none of them is the local operator.
func TestShared(t *testing.T) {
	t.Parallel()
	own := int64(os.Geteuid())
	dir := private(t)
	must.Do(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	l := must.Get(Shared(path, dir, own+7, overflowUID()))(t)
	defer l.Close()
	if info := must.Get(os.Lstat(path))(t); info.Mode().Perm() != 0o666 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
	for name, c := range map[string]struct {
		found   credentials
		err     error
		refused bool
	}{
		"the owner":                  {found: credentials{uid: own, pid: 7}},
		"one that is listed":         {found: credentials{uid: own + 7, pid: 7}},
		"one that is not":            {found: credentials{uid: own + 8, pid: 7}, refused: true},
		"one beside the listed ones": {found: credentials{uid: own + 1, pid: 7}, refused: true},
		"one that nobody maps":       {found: credentials{uid: overflowUID(), pid: 7}, refused: true},
		"nobody knows":               {err: errors.New("no"), refused: true},
	} {
		l.look = func(net.Conn) (credentials, error) { return c.found, c.err }
		client := must.Get(net.Dial("unix", path))(t)
		server := must.Get(l.Accept())(t)
		p, ok := AgentOf(AgentContext(t.Context(), server))
		if !ok || (p.Refused != nil) != c.refused {
			t.Errorf("%s: %v, refused: %v", name, p, p.Refused)
		}
		if p.Socket {
			t.Errorf("%s: it would be let in without a token, as the local operator's own", name)
		}
		client.Close()
		server.Close()
	}
}

// others is the id of a user and a group that are not this process's.
const others = 54321

// TestSharedNeedsADirectoryOfItsOwn: users who can write to the directory could create their
// own socket there while palyrad is stopped. Control: TestShared.
func TestSharedNeedsADirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
	for mode, dir := range map[os.FileMode]string{0o775: private(t), 0o777: private(t), 0o777 | os.ModeSticky: private(t)} {
		if mode == 0o775 && os.Chown(dir, -1, others) != nil {
			continue // only root can give a directory to another group
		}
		must.Do(t, os.Chmod(dir, mode))
		if l, err := Shared(filepath.Join(dir, "s"), dir); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%v: %v, %v", mode, l, err)
		}
	}
	// A user who can rename the directory could do the same; the sticky bit prevents this.
	for mode, refused := range map[os.FileMode]bool{0o777: true, 0o777 | os.ModeSticky: false} {
		above := private(t)
		dir := filepath.Join(above, "d")
		must.Do(t, os.Mkdir(dir, 0o755))
		must.Do(t, os.Chmod(above, mode))
		l, err := Shared(filepath.Join(dir, "s"), above)
		if refused != (reason.Of(err) == reason.ConfigInvalid) {
			t.Errorf("above it is %v: %v", mode, err)
		}
		if err == nil {
			l.Close()
		}
	}
	// The owner of a symbolic link in the path could do the same.
	for _, uid := range []int{os.Geteuid(), others} {
		open, dir := private(t), private(t)
		must.Do(t, os.Chmod(open, 0o777|os.ModeSticky))
		link := filepath.Join(open, "l")
		must.Do(t, os.Symlink(dir, link))
		if os.Lchown(link, uid, -1) != nil {
			continue // only root can give a link to another user
		}
		l, err := Shared(filepath.Join(link, "s"), dir)
		if refused := uid == others; refused != (reason.Of(err) == reason.ConfigInvalid) {
			t.Errorf("behind a link of the user %d: %v", uid, err)
		}
		if err == nil {
			l.Close()
		}
	}
	if l, err := Shared(filepath.Join(private(t), "none", "s"), private(t)); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a directory that is not there: %v, %v", l, err)
	}
}
