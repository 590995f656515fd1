package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// forkTool runs the tool as a child, in all the layers of this thread, and remains
// as the first process of the process namespace until the tool ends. A tool
// that were itself the first process would be deaf to every signal that it does
// not handle, abort(3) among them, and would inherit orphans that it never
// waits for. With the first process the kernel ends all others.
func forkTool(i inside.Inner, order inside.Order) error {
	if i.DropCapabilities {
		// The threads of the runtime have kept what this one has dropped.
		if err := dropEverywhere(); err != nil {
			return fail("dropping the capabilities of all threads", err)
		}
	}
	// Other threads have neither Landlock nor the filter: their memory must be
	// out of the tool's reach before there is one. The tool's own is not, as
	// execve sets it anew.
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
	// This closes the control socket, too, which tells palyrad of the start.
	if err := unix.CloseRange(0, ^uint(0)>>1, 0); err != nil {
		unix.Exit(125)
	}
	unix.Exit(reap(pid))
	return nil
}

// dropEverywhere empties the capabilities of every thread.
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

// reap waits for orphans and for the tool, and returns what a shell would say
// of its end.
func reap(tool int) int {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 125
		case pid != tool:
			continue
		case status.Signaled():
			return 128 + int(status.Signal())
		}
		return status.ExitStatus()
	}
}
