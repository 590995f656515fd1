package main

import (
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// limitUser sets limits of this user namespace. The descriptor leads to the files of whichever
// namespace the caller is in, even if no writable /proc is mounted. The tool has no capability to
// raise them.
func limitUser(u inside.UserLimits) error {
	const step = "limiting the user namespace"
	own, err := namespace("user")
	if err == nil && (u.Outside == 0 || own == u.Outside) {
		err = fail("the user namespace is the host's", unix.EPERM)
	}
	if err != nil {
		return fail(step, err)
	}
	for name, limit := range u.Limits {
		if err := writeSysctl(name, strconv.FormatUint(limit, 10)); err != nil {
			return fail(step, fail(name, err))
		}
	}
	return nil
}

func writeSysctl(name, value string) error {
	fd, err := unix.Openat(inside.SysctlFD, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}
