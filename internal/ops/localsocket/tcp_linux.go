package localsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// The messages of sock_diag(7). Members are named as in the kernel's headers (linux/inet_diag.h);
// numbers are in host byte order except for those of the network.
const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagRequestSize  = unix.SizeofNlMsghdr + 56
	// offsets in inet_diag_msg
	diagState, diagUID, diagInode = 1, 64, 68
	diagMsgSize                   = 72
	tcpEstablished                = 1
)

// loopbackPeer returns the user of a connection's other end from the kernel (sock_diag(7)). It is
// the user who opened that socket, also if another process received it. A socket that its process
// has closed is refused, because the kernel then reports uid 0, which is root.
func loopbackPeer(c net.Conn) (credentials, error) {
	server, client, err := ends(c)
	if err != nil {
		return credentials{}, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return credentials{}, fmt.Errorf("opening sock_diag: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return credentials{}, fmt.Errorf("bounding sock_diag: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(client, server), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return credentials{}, fmt.Errorf("sending to sock_diag: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return credentials{}, fmt.Errorf("receiving from sock_diag: %w", err)
	}
	return diagAnswer(answer[:n])
}

// diagRequest requests the socket whose own address is client and whose peer is server.
func diagRequest(client, server *net.TCPAddr) []byte {
	b := make([]byte, diagRequestSize)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], diagRequestSize)
	ne.PutUint16(b[4:], sockDiagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	req := b[unix.SizeofNlMsghdr:]
	family, from, to := byte(unix.AF_INET6), client.IP.To16(), server.IP.To16()
	if v4 := client.IP.To4(); v4 != nil {
		family, from, to = unix.AF_INET, v4, server.IP.To4()
	}
	req[0], req[1] = family, unix.IPPROTO_TCP
	ne.PutUint32(req[4:], 1<<tcpEstablished)
	id := req[8:]
	binary.BigEndian.PutUint16(id[0:], uint16(client.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(server.Port))
	copy(id[4:20], from)
	copy(id[20:36], to)
	ne.PutUint32(id[40:], ^uint32(0)) // INET_DIAG_NOCOOKIE
	ne.PutUint32(id[44:], ^uint32(0))
	return b
}

// diagAnswer returns the owner in the kernel's answer.
func diagAnswer(b []byte) (credentials, error) {
	ne := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr {
		return credentials{}, errors.New("the answer of sock_diag is incomplete")
	}
	kind, body := ne.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	switch {
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		if errno := -int32(ne.Uint32(body)); errno > 0 {
			return credentials{}, fmt.Errorf("sock_diag: %w", unix.Errno(errno))
		}
		return credentials{}, errors.New("sock_diag did not find the socket")
	case kind != sockDiagByFamily || len(body) < diagMsgSize:
		return credentials{}, errors.New("the answer of sock_diag is invalid")
	case body[diagState] != tcpEstablished || ne.Uint32(body[diagInode:]) == 0:
		return credentials{}, errors.New("the other end was closed")
	}
	return credentials{uid: int64(ne.Uint32(body[diagUID:]))}, nil
}
