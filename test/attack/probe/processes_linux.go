package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes are attacks on other processes.
func processes() map[string]attack {
	return map[string]attack{
		"ptrace":     toOutsider(ptrace),
		"vm-read":    toOutsider(func(pid int) error { return copyMemory(pid, unix.ProcessVMReadv) }),
		"vm-write":   toOutsider(func(pid int) error { return copyMemory(pid, unix.ProcessVMWritev) }),
		"pidfd-get":  pidfdGet,
		"kcmp":       compare,
		"kill":       toOutsider(func(pid int) error { return unix.Kill(pid, unix.SIGUSR1) }),
		"tgkill":     toOutsider(func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGUSR1) }),
		"pidfd-kill": toOutsider(pidfdKill),
		"memfd-exec": memfdExec,
	}
}

// ptrace attaches to a process.
func ptrace(pid int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	return failure(errno)
}

func failure(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

type transfer func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

// copyMemory reads or writes the memory of another process, at an address that is not valid there.
// The kernel checks the access first.
func copyMemory(pid int, move transfer) error {
	var from, to [8]byte
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(len(to))
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: len(from)}}
	_, err := move(pid, local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func pidfdGet([]string) (string, error) {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return "", err
	}
	_, err = unix.PidfdGetfd(self, 1, 0)
	return "", err
}

func compare([]string) (string, error) {
	pid := uintptr(os.Getpid())
	_, _, errno := unix.RawSyscall6(unix.SYS_KCMP, pid, pid, 1, 0, 0, 0) // KCMP_VM
	return "", failure(errno)
}

// toOutsider attacks the process with the given pid of the host.
func toOutsider(send func(pid int) error) attack {
	return func(args []string) (string, error) {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return "", err
		}
		return fmt.Sprint("process ", pid), send(pid)
	}
}

func pidfdKill(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0)
}

// memfdExec runs a program from memory: this program, which then tries a forbidden action. The
// restrictions of the parent apply.
func memfdExec(args []string) (string, error) {
	fd, err := unix.MemfdCreate("fileless", 0)
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, program); err != nil {
		return "", err
	}
	name, flags := "", unix.AT_EMPTY_PATH
	if args[0] == "path" {
		name, flags = "/proc/self/fd/"+strconv.Itoa(fd), 0
	}
	return "", spawn(fd, name, flags, []string{"probe", "status", "unshare", "user"})
}

// spawn executes in a child, so that this process can report the result.
func spawn(fd int, name string, flags int, args []string) error {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envv := []*byte{nil}
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		_, _, errno = unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), uintptr(flags), 0)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	return reap(pid, errno)
}
