// Package socket receives sockets from a service manager (sd_listen_fds(3)): no other process can
// take such a port while this process does not run.
package socket

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/core/reason"
)

// Listener returns the listener with a name (FileDescriptorName=) from the service manager, or
// nil if there is none. The listener must have the given address.
func Listener(name, address string) (net.Listener, error) {
	file, err := handed(name)
	if err != nil || file == nil {
		return nil, err
	}
	defer file.Close() // the listener has its own descriptor
	l, err := net.FileListener(file)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "using the socket %q of the service manager: %w", name, err).
			WithRemedy("Set ListenStream=%s in the socket's unit.", address)
	}
	if l.Addr().Network() != "tcp" || l.Addr().String() != address {
		return nil, errors.Join(reason.Errorf(reason.ConfigInvalid, "the service manager has %s for %s, but the configuration has %s", l.Addr(), name, address).
			WithRemedy("Make them equal, or run `palyra up`."), l.Close())
	}
	return l, nil
}

// first is the first descriptor of a service manager.
const first = 3

// handed returns the socket with a name from the service manager, or nil if there is none. The
// socket can be taken once, and is not passed to programs that palyrad starts.
func handed(name string) (*os.File, error) {
	pid, fds, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, variable := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(variable); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // for another process
	}
	n, err := strconv.Atoi(fds)
	if err != nil || n < 0 {
		return nil, reason.Errorf(reason.ConfigInvalid, "LISTEN_FDS is %q", fds).WithRemedy("Start palyrad with its unit.")
	}
	i := slices.Index(strings.Split(names, ":"), name)
	if i < 0 || i >= n {
		return nil, nil
	}
	return os.NewFile(uintptr(first+i), name), nil
}
