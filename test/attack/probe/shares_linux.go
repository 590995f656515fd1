package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shares are attacks on what all runs of a machine share.
func shares() map[string]attack {
	return map[string]attack{
		"allocate":     allocate,
		"asynchronous": asynchronous,
		"large-pipe":   largePipe,
		"in-flight":    inFlight,
	}
}

// space is struct space_resv of <linux/falloc.h>.
type space struct {
	kind, whence int16
	start, size  int64
	sysid        int32
	pid          uint32
	_            [4]int32
}

const allocated = 1 << 20

// allocate requests blocks of the disk without writing them, and succeeds if the file has them.
func allocate(args []string) (string, error) {
	// These requests of <linux/falloc.h> do the same on every file system.
	const reserve, reserve64, zeroRange = 0x40305828, 0x4030582a, 0x40305839
	f, err := os.CreateTemp(".", "allocated-")
	if err != nil {
		return "", err
	}
	defer f.Close()
	fd := int(f.Fd())
	byRequest := func(request uintptr) error {
		area := space{size: allocated}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&area)))
		return failure(errno)
	}
	switch args[0] {
	case "plain":
		err = unix.Fallocate(fd, 0, 0, allocated)
	case "keep":
		err = unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, allocated)
	case "zero":
		err = unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 0, allocated)
	case "ioctl":
		err = byRequest(reserve)
	case "ioctl64":
		err = byRequest(reserve64)
	case "ioctl-zero":
		err = byRequest(zeroRange)
	default:
		err = fmt.Errorf("no way %q", args[0])
	}
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Blocks*512 < allocated {
		return "", fmt.Errorf("%d blocks are allocated", st.Blocks)
	}
	return fmt.Sprintf("%d blocks", st.Blocks), nil
}

// asynchronous creates a context of asynchronous I/O. The number of requests of all contexts is
// limited for the machine (fs.aio-max-nr).
func asynchronous([]string) (string, error) {
	var context uintptr
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0)
	return "", failure(errno)
}

// largePipe makes a pipe of the largest size that an ordinary user may request
// (fs.pipe-max-size). The kernel reads the low 32 bits of the command.
func largePipe(args []string) (string, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return "", err
	}
	command := uintptr(unix.F_SETPIPE_SZ)
	if len(args) > 0 {
		command |= 1 << 32
	}
	size, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(ends[0]), command, 1<<20)
	return fmt.Sprintf("%d bytes", size), failure(errno)
}

// inFlight sends descriptors over a socket that nobody receives, until the kernel refuses more to
// this user, and keeps them there.
func inFlight([]string) (string, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	sent := 0
	for ; ; sent++ {
		err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(0), nil, 0)
		if errors.Is(err, unix.ETOOMANYREFS) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("after %d descriptors: %w", sent, err)
		}
	}
	awaitKill()
	return fmt.Sprintf("%d descriptors", sent), nil
}
