package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

// inner puts the last layers in place, in the order in which each still has
// the power it needs, proves them, waits for palyrad's word and becomes the
// tool.
func inner(i inside.Inner) error {
	// Strays of the daemon and of bubblewrap must not reach the tool.
	if err := unix.CloseRange(inside.ControlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail("closing descriptors", err)
	}
	if err := same(i.Dir, i.Workspace); err != nil {
		return fail(inside.StepWorkspace, err)
	}
	unix.Umask(0o022)
	if i.DropCapabilities {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	if i.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fail("giving up new privileges", err)
		}
	}
	if i.Landlock != nil {
		if err := restrict(*i.Landlock); err != nil {
			return err
		}
	}
	if err := same(i.Exec, i.File); err != nil {
		return fail(inside.StepExecutable, err)
	}
	for _, l := range i.Rlimits {
		// syscall and not unix: it also tells Go's own exec hook to leave the
		// limit on open files alone.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return fail("setting the limit "+l.Name, err)
		}
	}
	if len(i.Seccomp) > 0 {
		if err := filter(i.Seccomp); err != nil {
			return fail("installing the system call filter", err)
		}
	}
	report, err := readBack(i)
	if err != nil {
		return err
	}
	if err := send(report); err != nil {
		return fail("sending the report", err)
	}
	if err := waitForWord(); err != nil {
		return err
	}
	return fail(inside.StepExec, unix.Exec(i.Exec, i.Argv, i.Env))
}

// same compares a path inside with what palyrad opened outside.
func same(path string, want inside.Identity) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	got := inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}
	if want.Ctime != 0 {
		got.Size, got.Mtime, got.Ctime = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	}
	if got != want {
		return unix.ESTALE
	}
	return nil
}

// dropCapabilities empties the bounding set first, as that needs CAP_SETPCAP.
func dropCapabilities() error {
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // past the last capability that the kernel knows
		}
		if err != nil {
			return fail("emptying the bounding set", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fail("emptying the ambient set", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return fail("dropping capabilities", unix.Capset(&header, &none[0]))
}

// filter installs a classic BPF program on this thread. It is the last layer:
// it may forbid what the others need.
func filter(program []byte) error {
	const record = 8 // sizeof(struct sock_filter)
	if len(program)%record != 0 {
		return unix.EINVAL
	}
	prog := unix.SockFprog{
		Len:    uint16(len(program) / record),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// waitForWord blocks until palyrad has judged the report.
func waitForWord() error {
	var word [8]byte
	for {
		n, err := unix.Read(inside.ControlFD, word[:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fail("waiting at the gate", err)
		case string(word[:n]) != inside.Go:
			return fail("waiting at the gate", unix.ECANCELED)
		}
		return nil
	}
}
