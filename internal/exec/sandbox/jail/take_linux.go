package jail

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// take copies descriptors of the helper (pidfd_getfd(2)), which waits for the go-ahead. Sending
// them over the control socket would fail while programs of the same user have too many
// descriptors in flight.
func take(control *os.File, helper int, numbers []int, most int) (fds []int, err error) {
	if len(numbers) > most {
		return nil, unix.EMSGSIZE
	}
	process, err := unix.PidfdOpen(helper, 0)
	if err != nil {
		return nil, errNoReport // it has already exited
	}
	defer unix.Close(process)
	// If the helper has exited, another process may have its pid.
	if open, err := connected(control); err != nil || !open {
		return nil, errors.Join(errNoReport, err)
	}
	for _, number := range numbers {
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			closeDescriptors(fds)
			return nil, takeError(err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// connected reports whether a process still holds the other end of the socket.
func connected(control *os.File) (open bool, err error) {
	conn, err := control.SyscallConn()
	if err != nil {
		return false, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		_, failed = unix.Poll(fds, 0)
		open = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) == 0
	})
	return open, errors.Join(err, failed)
}

func takeError(err error) error {
	refused := reason.Errorf(reason.SandboxUnavailable, "taking the descriptors of the sandbox: %w", err)
	if errors.Is(err, unix.EPERM) {
		return refused.WithRemedy("A security module of this machine forbids pidfd_getfd(2) on palyrad's own processes: permit palyrad to trace them.")
	}
	return refused
}

// tracing is the permission of the daemon to take descriptors of its processes. The kernel
// requires the permission to trace them (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS).
type tracing struct {
	// takes reports that the kernel has the call, and that no filter of a container refuses it.
	takes bool
	// capable reports that the daemon has CAP_SYS_PTRACE.
	capable bool
	// yama is kernel.yama.ptrace_scope, 0 without that security module.
	yama int
}

// The values of kernel.yama.ptrace_scope that restrict the daemon. 1 permits it to trace its
// descendants.
const (
	yamaCapable = 2 // a tracer needs CAP_SYS_PTRACE in the process's user namespace
	yamaNone    = 3 // tracing is forbidden
)

func newTracing(effective string) tracing {
	capabilities, _ := strconv.ParseUint(effective, 16, 64)
	t := tracing{capable: capabilities&(1<<unix.CAP_SYS_PTRACE) != 0}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		t.yama, _ = strconv.Atoi(strings.TrimSpace(string(scope)))
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return t
	}
	defer unix.Close(self)
	if fd, err := unix.PidfdGetfd(self, self, 0); err == nil {
		unix.Close(fd)
		t.takes = true
	}
	return t
}

// permits reports whether the daemon may take descriptors from the sandbox of a plan. A daemon
// that is root needs the capability, because its sandboxes have other users. Another daemon has
// every capability in the user namespaces that it created.
func (t tracing) permits(p *Plan, root bool) bool {
	switch {
	case !t.takes, t.yama >= yamaNone, root && !t.capable:
		return false
	case t.yama == yamaCapable:
		return root || p.ownUsers()
	}
	return true
}
