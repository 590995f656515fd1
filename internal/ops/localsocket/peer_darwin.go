package localsocket

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerCredentials returns the peer from the kernel (LOCAL_PEERCRED and LOCAL_PEERPID, unix(4)).
func peerCredentials(c net.Conn) (found credentials, err error) {
	err = raw(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return err
		}
		found.uid = int64(cred.Uid)
		found.pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		found.near = err == nil // there are no pid namespaces
		return err
	})
	return found, err
}
