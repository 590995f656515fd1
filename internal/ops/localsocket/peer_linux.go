package localsocket

import (
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerCredentials asks the kernel who connected (SO_PEERCRED, unix(7)): whose process
// it was at that time. A process that hands the open connection on answers for it.
func peerCredentials(c net.Conn) (found credentials, err error) {
	err = raw(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			found = credentials{uid: int64(cred.Uid), pid: int(cred.Pid)}
		}
		return err
	})
	found.foreign = found.pid > 0 && !sameUsers(found.pid)
	return found, err
}

// sameUsers reports whether a process is in the user namespace of this one. In one of
// its own, which every user may make, somebody may hold this uid and no more of it.
func sameUsers(pid int) bool {
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	return err == nil && theirs == ours
}
