package localsocket

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/reason"
)

// firstActivated is the first descriptor that a service manager hands over
// (sd_listen_fds(3)).
const firstActivated = 3

// Activated is the socket of a name that a service manager handed over to this process;
// nil where there is none. It can be taken once, and no program that palyrad starts hears
// of it.
func Activated(name string) (*os.File, error) {
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
