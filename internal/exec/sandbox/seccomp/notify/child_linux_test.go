//go:build linux && (amd64 || arm64)

package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/seccomp"
)

// childMode makes this test binary a program under a watching filter. It sends the listener
// over descriptor 3, waits for a byte from there, and makes the calls that its arguments name.
// After the first call it sends a byte back. It prints the errnos as JSON.
const childMode = "TEST_PALYRA_NOTIFY"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		if err := childMain(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const socketFD = 3

func childMain(names []string) error {
	runtime.LockOSThread()
	listener, err := install()
	if err != nil {
		return fmt.Errorf("installing the filter: %w", err)
	}
	if err := unix.Sendmsg(socketFD, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("sending the listener: %w", err)
	}
	unix.Close(listener)
	if _, err := unix.Read(socketFD, make([]byte, 1)); err != nil {
		return err
	}
	errnos := make([]int, 0, len(names))
	for _, name := range names {
		errnos = append(errnos, int(attempt(name)))
		if len(errnos) == 1 {
			_, _ = unix.Write(socketFD, []byte{0})
		}
	}
	return json.NewEncoder(os.Stdout).Encode(errnos)
}

// install installs the filter on this thread, as palyra-init does.
func install() (int, error) {
	raw, err := seccomp.Program(seccomp.Options{Watch: true})
	if err != nil {
		return 0, err
	}
	program := seccomp.Bytes(raw)
	filter := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// call is one call of the child.
type call struct {
	name string
	nr   uintptr
	args [3]uintptr
	want unix.Errno
	// reported are the arguments in the log, or nil if the call is not logged.
	reported []string
}

var attempts = []call{
	{"mount", unix.SYS_MOUNT, [3]uintptr{}, unix.EPERM, []string{}},
	{"unshare", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER}, unix.EPERM, []string{"0x10000000"}},
	{"clone3", unix.SYS_CLONE3, [3]uintptr{}, unix.ENOSYS, nil},
	{"socket", unix.SYS_SOCKET, [3]uintptr{unix.AF_PACKET, unix.SOCK_RAW, 0}, unix.EAFNOSUPPORT, []string{"0x11", "0x3"}},
	{"nscd", unix.SYS_SOCKET, [3]uintptr{unix.AF_UNIX, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, nil},
	{"ioctl", unix.SYS_IOCTL, [3]uintptr{0, unix.TIOCSTI, 0}, unix.EPERM, []string{"0x0", "0x5412"}},
	{"fchmod", unix.SYS_FCHMOD, [3]uintptr{0, 0o4755, 0}, unix.EPERM, []string{"0x0", "0x9ed"}},
	{"seccomp", unix.SYS_SECCOMP, [3]uintptr{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 0}, unix.EBUSY, []string{"0x1", "0x8"}},
	{"getpid", unix.SYS_GETPID, [3]uintptr{}, 0, nil},
}

func attempt(name string) unix.Errno {
	a := attempts[slices.IndexFunc(attempts, func(c call) bool { return c.name == name })]
	_, _, errno := unix.Syscall(a.nr, a.args[0], a.args[1], a.args[2])
	return errno
}
