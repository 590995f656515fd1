package main

import (
	"golang.org/x/sys/unix"

	"palyra/test/attack/attempt"
)

// iopl requests access to all ports, with an invalid level.
func iopl([]string) (string, error) {
	_, _, errno := unix.Syscall(unix.SYS_IOPL, 99, 0, 0)
	return attempt.Reached(errno, unix.EINVAL, unix.ENOSYS)
}
