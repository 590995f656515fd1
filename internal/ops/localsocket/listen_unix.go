//go:build unix

package localsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"palyra/internal/core/reason"
	"palyra/internal/core/trusted"
)

// ErrNotOffered marks a socket that cannot be offered here; palyrad works without.
var ErrNotOffered = errors.New("no socket for the local operator")

// maxPath is the longest path of a socket in bytes, that of the system whose
// addresses are shortest (sun_path of macOS, with the byte that ends it).
const maxPath = 103

// Listen listens at path, in a private directory of this process's user. The caller
// holds the lock of that directory, so that a socket which is there already is that
// of a palyrad which was killed. Anything else there is refused.
func Listen(path string) (*Listener, error) {
	owner, err := ownerOf(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("%w: the path %s has %d bytes, and a socket's has at most %d", ErrNotOffered, path, len(path), maxPath)
	}
	l, err := listenAt(path, 0o600)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, look: peerCredentials}, nil
}

// Shared listens at path for agents of other users than this process's: of the owner of
// dir, and of those in also. No other user may be able to put a socket of theirs at path, so
// that its directory and the way to it are what trusted.Check accepts.
func Shared(path, dir string, also ...int64) (*Listener, error) {
	owner, err := dirOwner(dir)
	if err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, reason.Errorf(reason.ConfigInvalid, "the path %s of a socket has %d bytes, and may have %d", path, len(path), maxPath).WithRemedy("Set listen.hooks to a shorter one.")
	}
	if _, err := trusted.Check(filepath.Dir(path), nil); err != nil {
		return nil, fmt.Errorf("the directory of listen.hooks, in which another user could answer agents: %w", err)
	}
	l, err := listenAt(path, 0o666)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, also: also, shared: true, look: peerCredentials}, nil
}

// listenAt listens at a path, in place of the socket of a palyrad that was killed.
func listenAt(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on the socket %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("saying who may connect to the socket: %w", err), l.Close())
	}
	return l, nil
}

// ownerOf returns the uid of a directory that is this user's alone.
func ownerOf(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, fmt.Errorf("looking at the directory of the socket: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return 0, reason.Errorf(reason.ConfigInvalid, "the directory %s of the socket is not private", dir).WithRemedy("Run `chmod 700 %s`.", dir)
	}
	owner := int64(st.Uid)
	switch own := int64(os.Geteuid()); {
	case owner != own:
		return 0, fmt.Errorf("%w: %s belongs to uid %d, and palyrad runs as uid %d", ErrNotOffered, dir, owner, own)
	case owner == overflowUID():
		return 0, fmt.Errorf("%w: uid %d stands for every user that this user namespace does not know", ErrNotOffered, owner)
	}
	return owner, nil
}

// dirOwner returns the uid of a directory.
func dirOwner(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, fmt.Errorf("looking whose %s is: %w", dir, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the system does not say whose %s is", dir)
	}
	if int64(st.Uid) == overflowUID() {
		return 0, fmt.Errorf("%s belongs to uid %d, which stands for every user that this user namespace does not know", dir, st.Uid)
	}
	return int64(st.Uid), nil
}

// overflowUID is what the kernel shows in place of a uid that a user namespace does
// not map (user_namespaces(7)).
func overflowUID() int64 {
	const usual = 65534
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return usual
	}
	return n
}

// removeStale removes the socket of a palyrad that was killed.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the socket: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeSocket || int64(st.Uid) != int64(os.Geteuid()) {
		return reason.Errorf(reason.ConfigInvalid, "%s is no socket of palyrad", path).
			WithRemedy("See what it is and move it away, or have another path in the configuration.")
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of a palyrad that was killed: %w", err)
	}
	return nil
}

// raw lets ask the kernel about a connection.
func raw(c net.Conn, ask func(fd int) error) error {
	of, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("the connection is no socket")
	}
	control, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	if err := control.Control(func(fd uintptr) { asked = ask(int(fd)) }); err != nil {
		return err
	}
	return asked
}
