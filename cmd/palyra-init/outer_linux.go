package main

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

// outer joins the control groups before anything forks, attaches the view of
// the workspace in the mount namespace it was started in, takes on the
// unprivileged identity, and becomes bubblewrap.
func outer(o inside.Outer) error {
	for _, fd := range o.Join {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fail("joining a control group", err)
		}
	}
	if o.View != nil {
		if err := attach(*o.View); err != nil {
			return err
		}
	}
	if o.UID != 0 {
		if err := become(o.UID, o.GID); err != nil {
			return err
		}
	}
	// A change of identity clears the parent-death signal, and a parent that
	// died before this line will not send one.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail("asking to die with the daemon", err)
	}
	if unix.Getppid() != o.Parent {
		return fail("checking that the daemon lives", unix.ESRCH)
	}
	for _, fd := range o.Hide {
		unix.CloseOnExec(fd)
	}
	// A set-user-ID bubblewrap would be root's; this keeps it from being so.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fail("giving up new privileges", err)
	}
	inherit(inside.ControlFD, inside.SpecFD, inside.HelperFD)
	err := unix.Exec(o.Exec, o.Argv, nil)
	for fd := inside.ControlFD; fd <= inside.HelperFD; fd++ {
		unix.CloseOnExec(fd)
	}
	return fail("starting bubblewrap", err)
}

// attach makes the mount tree private, covers a directory that every user may
// pass with an empty file system, and moves the detached mount into it. No
// other process sees any of this.
func attach(v inside.View) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fail("making the mounts private", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", v.Dir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=8"); err != nil {
		return fail("covering "+v.Dir, err)
	}
	target := filepath.Join(v.Dir, v.Name)
	if err := unix.Mkdir(target, 0o755); err != nil {
		return fail("making the place of the workspace", err)
	}
	err := unix.MoveMount(v.FD, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return fail("attaching the workspace", err)
}

// become gives up root for good, on this thread alone: it is the one that
// becomes bubblewrap, and the others end then.
func become(uid, gid int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fail("dropping groups", errno)
	}
	g, u := uintptr(gid), uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, g, g, g); errno != 0 {
		return fail("changing group", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, u, u, u); errno != 0 {
		return fail("changing user", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0); errno == 0 || unix.Geteuid() != uid {
		return fail("checking that root is gone", unix.EPERM)
	}
	return nil
}

func inherit(fds ...int) {
	for _, fd := range fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
}
