package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/test/attack/attempt"
)

// sockets are attacks by sockets that a program does not need.
func sockets() map[string]attack {
	return map[string]attack{
		"socket-kind":   socketKind,
		"raw-send":      rawSend,
		"packet-send":   packetSend,
		"netlink-route": netlinkRoute,
	}
}

// socketKind creates a socket by its numbers: domain, type and protocol.
func socketKind(args []string) (string, error) {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return "", err
		}
	}
	fd, err := unix.Socket(n[0], n[1]|unix.SOCK_CLOEXEC, n[2])
	if errors.Is(err, unix.EACCES) && n[1] == unix.SOCK_DGRAM {
		return "the kernel itself looked at it", nil // ping(7): the group is not one of the permitted ones
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint("descriptor ", fd), unix.Close(fd)
}

// rawSend writes a datagram with its own header (raw(7)).
func rawSend(args []string) (string, error) {
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return "", err
	}
	if to.Is6() {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return "", err
		}
		return "an echo request", unix.Sendto(fd, []byte{128, 0, 0, 0, 0, 1, 0, 1}, 0, &unix.SockaddrInet6{Addr: to.As16()})
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return "", err
	}
	return "an echo request", unix.Sendto(fd, []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}, 0, &unix.SockaddrInet4{Addr: to.As4()})
}

// packetSend sends a frame on the loopback interface (packet(7)).
func packetSend([]string) (string, error) {
	const ipv4 = 0x0800
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, ipv4>>8)
	if err != nil {
		return "", err
	}
	to := &unix.SockaddrLinklayer{Protocol: ipv4 >> 8, Ifindex: 1, Halen: 6}
	return "a frame", unix.Sendto(fd, make([]byte, 64), 0, to)
}

// netlinkRoute removes the routes that lead every destination to the gateway (rtnetlink(7)).
func netlinkRoute([]string) (string, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return "", err
	}
	message := make([]byte, 28)
	binary.NativeEndian.PutUint32(message[0:], 28)
	binary.NativeEndian.PutUint16(message[4:], unix.RTM_DELROUTE)
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	message[16], message[20], message[22] = unix.AF_INET, unix.RT_TABLE_LOCAL, unix.RT_SCOPE_NOWHERE
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return "", errors.Join(errors.New("no answer"), err)
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[16:])))
	return attempt.Reached(errno, unix.ESRCH)
}
