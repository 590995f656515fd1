package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// forkTool runs the tool as a child, in all the layers of this thread, and stays as the first
// process of the process namespace until the tool ends. As the first process, the tool would
// ignore every signal that it does not handle, abort(3) among them, and would inherit orphans
// that it never reaps. When the first process ends, the kernel ends all others.
func forkTool(i inside.Inner, order inside.Order) error {
	if i.DropCapabilities {
		// The threads of the runtime still have the capabilities that this thread has dropped.
		if err := dropEverywhere(); err != nil {
			return fail("dropping the capabilities of all threads", err)
		}
	}
	// Other threads have neither Landlock nor the filter, so the tool must not be able to access
	// their memory. The tool itself is not affected, because execve resets the attribute.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fail("hiding this program from the tool", err)
	}
	var pid int
	if err := unlessBusy(func() (err error) {
		pid, err = syscall.ForkExec(program(order), order.Argv, &syscall.ProcAttr{Env: order.Env, Files: []uintptr{0, 1, 2}})
		return err
	}); err != nil {
		return fail(inside.StepExec, err)
	}
	// This also closes the control socket, which reports the start to palyrad.
	if err := unix.CloseRange(0, ^uint(0)>>1, 0); err != nil {
		unix.Exit(125)
	}
	unix.Exit(reap(pid))
	return nil
}

// dropEverywhere drops the capabilities of every thread.
func dropEverywhere() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	runtime.KeepAlive(&none)
	if errno != 0 {
		return errno
	}
	return nil
}

// reap waits for orphans and for the tool, and returns the exit code of the tool as a shell
// would.
func reap(tool int) int {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 125
		case status.Stopped():
			untrace(pid, status.StopSignal())
		case pid != tool:
			continue
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}

// untrace continues a child that asked to be traced by its parent (PTRACE_TRACEME) and stopped at a
// signal. Nothing traces it after that, so the signal has its usual effect. SIGTRAP is dropped,
// because execve sends it to a traced process. A child that cannot be continued stays stopped until
// the run ends.
func untrace(pid int, signal unix.Signal) {
	if signal == unix.SIGTRAP {
		signal = 0
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(signal), 0, 0)
}
