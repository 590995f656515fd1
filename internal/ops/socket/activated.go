// Package socket takes sockets that a service manager holds for this process
// (sd_listen_fds(3)): nobody else can take such a port while the process does not run.
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

// Listener is the listener of a name (FileDescriptorName=) that the service manager handed
// over, which has to listen on an address; nil where there is none.
func Listener(name, address string) (net.Listener, error) {
	file, err := handed(name)
	if err != nil || file == nil {
		return nil, err
	}
	defer file.Close() // the listener has a descriptor of its own
	l, err := net.FileListener(file)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the socket %q of the service manager cannot be used: %w", name, err).
			WithRemedy("Let the socket's unit have ListenStream=%s.", address)
	}
	if l.Addr().Network() != "tcp" || l.Addr().String() != address {
		return nil, errors.Join(reason.Errorf(reason.ConfigInvalid, "the service manager holds %s for %s, and the configuration says %s", l.Addr(), name, address).
			WithRemedy("Make them the same: `palyra up` does."), l.Close())
	}
	return l, nil
}

// first is the first descriptor that a service manager hands over.
const first = 3

// handed is the socket of a name that a service manager handed over to this process;
// nil where there is none. It can be taken once, and no program that palyrad starts hears
// of it.
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
		return nil, reason.Errorf(reason.ConfigInvalid, "LISTEN_FDS is %q", fds).WithRemedy("Start palyrad by its unit.")
	}
	i := slices.Index(strings.Split(names, ":"), name)
	if i < 0 || i >= n {
		return nil, nil
	}
	return os.NewFile(uintptr(first+i), name), nil
}
