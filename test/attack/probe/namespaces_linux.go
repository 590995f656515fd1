package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flagOf returns the flag of clone(2) and unshare(2) for a kind of namespace.
func flagOf(kind string) uintptr {
	return map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	}[kind]
}

// namespaces are attacks that create and enter namespaces, in which a process may gain
// capabilities.
func namespaces() map[string]attack {
	return map[string]attack{
		"unshare": unshare,
		"clone":   clone,
		"clone3":  clone3,
		"setns":   setns,
		"chroot":  func([]string) (string, error) { return "", unix.Chroot("/tmp") },
	}
}

// unshare runs in a child, because a process with several threads cannot create a user namespace.
func unshare(args []string) (string, error) {
	return "", inChild(unix.SYS_UNSHARE, flagOf(args[0]), 0)
}

func clone(args []string) (string, error) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flagOf(args[0])|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return "", reap(pid, errno)
}

// cloneArgs is struct clone_args of <linux/sched.h>, version 0.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// clone3 passes its flags by a pointer, which a filter cannot read.
func clone3(args []string) (string, error) {
	c := cloneArgs{flags: uint64(flagOf(args[0])), exitSignal: uint64(unix.SIGCHLD)}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c)), unsafe.Sizeof(c), 0)
	return "", reap(pid, errno)
}

// setns enters the current namespace of the process, which always exists and requires the same
// privileges as any other.
func setns(args []string) (string, error) {
	f, err := os.Open("/proc/self/ns/" + args[0])
	if err != nil {
		return "", err
	}
	return "", inChild(unix.SYS_SETNS, f.Fd(), flagOf(args[0]))
}

// inChild makes one system call in a forked child and returns its errno.
func inChild(trap, a1, a2 uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		_, _, errno = unix.RawSyscall(trap, a1, a2, 0)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	return reap(pid, errno)
}

// reap ends the child, or waits for it in the parent; a child's exit code is an errno.
func reap(pid uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(int(pid), &status, 0, nil); err != nil {
		return err
	}
	return failure(unix.Errno(status.ExitStatus()))
}
