package main

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// inner puts the last layers in force, ordered so that each step still has the privileges that it
// needs. It then waits for a call, prepares the parameters of the call, proves the layers, waits
// for palyrad's go-ahead and becomes the tool.
func inner(i inside.Inner) error {
	shows := environmentShows(i)
	if i.Network != nil {
		if err := network(*i.Network, i.Pass); err != nil {
			return err
		}
	}
	if i.UserLimits != nil {
		if err := limitUser(*i.UserLimits); err != nil {
			return err
		}
	}
	if err := dropPrivileges(i); err != nil {
		return err
	}
	order, err := awaitOrder()
	if err != nil {
		return err
	}
	unpinned, err := prepare(i, order)
	if err != nil {
		return err
	}
	var listener []int
	if order.Filter {
		if listener, err = filter(); err != nil {
			return fail("installing the system call filter", err)
		}
	}
	report, err := readBack(i, order)
	if err != nil {
		return err
	}
	report.Environ, report.Unpinned, report.Watched = shows, unpinned, listener != nil
	if err := offer(report, i.Pass, listener...); err != nil {
		return fail("sending the report", err)
	}
	if err := awaitGo(); err != nil {
		return err
	}
	if i.First {
		return forkTool(i, order)
	}
	return execTool(order)
}

// dropPrivileges drops all privileges that no tool needs; a prepared sandbox has completed this
// step before it waits for its call.
func dropPrivileges(i inside.Inner) error {
	if !i.KeepDescriptors {
		// Stray descriptors of the daemon and of bubblewrap must not reach the tool.
		if err := unix.CloseRange(inside.ControlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return fail("closing descriptors", err)
		}
	}
	if i.Parent != 0 {
		if err := dieWith(i.Parent); err != nil {
			return err
		}
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
		return restrict(*i.Landlock)
	}
	return nil
}

// prepare executes the requests of the order before the tool starts. It returns the operands that
// could not be pinned.
func prepare(i inside.Inner, order inside.Order) (unpinned []int, err error) {
	if len(order.Operands) > 0 {
		if unpinned, err = pin(i.Dir, order.Operands, inside.BytesFD); err != nil {
			return nil, err
		}
	}
	if len(order.SecretFiles) > 0 {
		if err := placeSecrets(order, inside.SecretsFD); err != nil {
			return nil, fail(inside.StepSecrets, err)
		}
	}
	if order.Stdin {
		if err := unix.Dup3(inside.StdinFD, 0, 0); err != nil {
			return nil, fail("handing over standard input", err)
		}
	}
	if err := unix.Chdir(order.Cwd); err != nil {
		return nil, fail(inside.StepCwd, err)
	}
	if !order.Self {
		if err := same(order.Exec, order.File); err != nil {
			return nil, fail(inside.StepExecutable, err)
		}
	}
	for _, l := range order.Rlimits {
		// Use syscall, not unix: it also prevents Go's exec hook from resetting the limit on open
		// files.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return nil, fail("setting the limit "+l.Name, err)
		}
	}
	return unpinned, nil
}

// execTool replaces this program by the tool.
func execTool(order inside.Order) error {
	return fail(inside.StepExec, notStarted(program(order), unlessBusy(func() error { return unix.Exec(program(order), order.Argv, order.Env) })))
}

// program returns the path of the program to run.
func program(order inside.Order) string {
	if order.Self {
		return descriptor(inside.HelperFD)
	}
	return order.Exec
}

// dieWith requests that this program is killed when palyrad ends. A parent that died earlier does
// not trigger the signal, so the parent is checked as well.
func dieWith(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail("asking to die with the daemon", err)
	}
	if unix.Getppid() != parent {
		return fail("checking that the daemon lives", unix.ESRCH)
	}
	return nil
}

// same compares a path inside with the file that palyrad opened outside.
func same(path string, want inside.Identity) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if !matches(st, want) {
		return unix.ESTALE
	}
	return nil
}

// matches compares the fields that are set in want.
func matches(st unix.Stat_t, want inside.Identity) bool {
	got := inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
	return (want.Dev == 0 || want.Dev == got.Dev) && (want.Ino == 0 || want.Ino == got.Ino) && (want.Size == 0 || want.Size == got.Size) &&
		(want.Mtime == 0 || want.Mtime == got.Mtime) && (want.Ctime == 0 || want.Ctime == got.Ctime)
}

// dropCapabilities empties the bounding set first, because that requires CAP_SETPCAP.
func dropCapabilities() error {
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL || err == unix.EPERM {
			// Either c is past the last capability of the kernel, or this is an ordinary user without a
			// user namespace. no_new_privs prevents such a user from gaining any capability. The report
			// shows the result.
			break
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

// filter installs the filter on this thread. It is the last layer, because it may forbid calls
// that the others need. It returns a listener for the calls that the filter reports, or none if
// the kernel is too old or a listener is already active around this sandbox.
func filter() (listener []int, err error) {
	// Without the second flag, which exists since Linux 5.19, a signal interrupts a call with
	// EINTR while its answer is pending.
	const listen, patient = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	for _, flags := range []uintptr{listen | patient, listen} {
		fd, err := install(inside.WatchedFD, flags)
		if err == nil {
			return []int{fd}, nil
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EINVAL) {
			return nil, err
		}
	}
	_, err = install(inside.FilterFD, 0)
	return nil, err
}

func install(fd int, flags uintptr) (int, error) {
	const record = 8 // sizeof(struct sock_filter)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	program := make([]byte, st.Size)
	if len(program) == 0 || len(program)%record != 0 {
		return -1, unix.EINVAL
	}
	if err := readAt(fd, program, 0); err != nil {
		return -1, err
	}
	prog := unix.SockFprog{
		Len:    uint16(len(program) / record),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	got, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(got), nil
}
