package main

import (
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// outer mounts the workspace at the place where bubblewrap expects it, in a separate mount
// namespace, and becomes bubblewrap. The mounts are not visible to other processes.
func outer(o inside.Outer) error {
	if err := dieWith(o.Parent); err != nil {
		return err
	}
	mounted, err := assemble(o)
	if err != nil {
		return err
	}
	if err := send(inside.Report{Mounted: &mounted}); err != nil {
		return fail("sending the report", err)
	}
	for _, fd := range o.Hide {
		unix.CloseOnExec(fd)
	}
	// A set-user-ID bubblewrap would run as root; no_new_privs prevents that.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fail("giving up new privileges", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fail("giving up capabilities", err)
	}
	for fd := inside.ControlFD; fd <= inside.LastFD; fd++ {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	// The daemon gave this process an empty environment.
	err = unix.Exec(o.Exec, o.Argv, os.Environ())
	for fd := inside.ControlFD; fd <= inside.LastFD; fd++ {
		unix.CloseOnExec(fd)
	}
	return fail("starting bubblewrap", err)
}
