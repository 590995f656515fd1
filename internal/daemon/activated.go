package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/reason"
)

// AgentsSocket is the name of the socket of listen.agents in the units of systemd
// (FileDescriptorName=).
const AgentsSocket = "agents"

// listenAgents is the listener for agents: that which the service manager holds, or one of
// palyrad's own. What the manager holds nobody else can take while palyrad does not run.
func listenAgents(ctx context.Context, address string) (net.Listener, error) {
	file, err := activated(AgentsSocket)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return listen(ctx, address, "listen.agents")
	}
	defer file.Close() // the listener has a descriptor of its own
	l, err := net.FileListener(file)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the socket that the service manager gave for listen.agents cannot be used: %w", err).
			WithRemedy("Let the socket's unit have ListenStream=%s.", address)
	}
	if l.Addr().Network() != "tcp" || l.Addr().String() != address {
		return nil, errors.Join(reason.Errorf(reason.ConfigInvalid, "the service manager holds %s for agents, and listen.agents is %s", l.Addr(), address).
			WithRemedy("Make them the same: `palyra up` does."), l.Close())
	}
	return l, nil
}

// firstActivated is the first descriptor that a service manager hands over
// (sd_listen_fds(3)).
const firstActivated = 3

// activated is the socket of a name that a service manager handed over to this process;
// nil where there is none. It can be taken once, and no program that palyrad starts hears
// of it.
func activated(name string) (*os.File, error) {
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
	return os.NewFile(uintptr(firstActivated+i), name), nil
}
