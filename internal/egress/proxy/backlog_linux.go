package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// waiting reports whether a connection is waiting to be accepted.
func waiting(l net.Listener) bool {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	one := []unix.PollFd{{Events: unix.POLLIN}}
	err = raw.Control(func(fd uintptr) {
		one[0].Fd = int32(fd)
		_, _ = unix.Poll(one, 0) // an error means that none is waiting
	})
	return err == nil && one[0].Revents&unix.POLLIN != 0
}
