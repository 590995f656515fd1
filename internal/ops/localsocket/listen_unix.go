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

// ErrNotOffered is returned if a socket is not supported here; palyrad works without it.
var ErrNotOffered = errors.New("the socket for the local operator is not available")

// maxPath is the longest path of a socket in bytes, the smallest limit of all systems (sun_path of
// macOS, minus its terminating byte).
const maxPath = 103

// Listen listens at path, in a private directory of this process's user. The caller MUST hold the
// lock of that directory, so that an existing socket belongs to a palyrad that was killed. Any
// other file there is refused.
func Listen(path string) (*Listener, error) {
	owner, err := ownerOf(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("%w: the path %s has %d bytes, the limit for sockets is %d", ErrNotOffered, path, len(path), maxPath)
	}
	l, err := listenAt(path, 0o600)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, look: peerCredentials}, nil
}

// Shared listens at path for agents that run as the owner of dir or as one of the users in also,
// instead of the user of this process. No other user may be able to replace the socket, so its
// directory and all parents must satisfy trusted.Check.
func Shared(path, dir string, also ...int64) (*Listener, error) {
	owner, err := dirOwner(dir)
	if err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, reason.Errorf(reason.ConfigInvalid, "the path %s of a socket has %d bytes, the limit is %d", path, len(path), maxPath).WithRemedy("Set listen.hooks to a shorter path.")
	}
	if _, err := trusted.Check(filepath.Dir(path), nil); err != nil {
		return nil, fmt.Errorf("checking the directory of listen.hooks, where another user could answer agents: %w", err)
	}
	l, err := listenAt(path, 0o666)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, also: also, shared: true, look: peerCredentials}, nil
}

// listenAt listens at a path, replacing the socket of a palyrad that was killed.
func listenAt(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on the socket %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the permissions of the socket: %w", err), l.Close())
	}
	return l, nil
}

// ownerOf returns the uid of a private directory.
func ownerOf(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, fmt.Errorf("reading the directory of the socket: %w", err)
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
		return 0, fmt.Errorf("%w: uid %d represents every user that is not mapped in this user namespace", ErrNotOffered, owner)
	}
	return owner, nil
}

// dirOwner returns the uid of a directory.
func dirOwner(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, fmt.Errorf("finding the owner of %s: %w", dir, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the system does not report the owner of %s", dir)
	}
	if int64(st.Uid) == overflowUID() {
		return 0, fmt.Errorf("%s belongs to uid %d, which represents every user that is not mapped in this user namespace", dir, st.Uid)
	}
	return int64(st.Uid), nil
}

// overflowUID returns the uid that the kernel reports for users that are not mapped in a user
// namespace (user_namespaces(7)).
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
		return fmt.Errorf("checking the socket: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeSocket || int64(st.Uid) != int64(os.Geteuid()) {
		return reason.Errorf(reason.ConfigInvalid, "%s is not a socket of palyrad", path).
			WithRemedy("Move the file away, or configure another path.")
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of a palyrad that was killed: %w", err)
	}
	return nil
}

// raw calls ask with the file descriptor of a connection.
func raw(c net.Conn, ask func(fd int) error) error {
	of, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("the connection is not a socket")
	}
	control, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := control.Control(func(fd uintptr) { result = ask(int(fd)) }); err != nil {
		return err
	}
	return result
}
