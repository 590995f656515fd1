package main

import (
	"errors"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// backlog is the number of connections that may wait for palyrad; the kernel has its own limit
// (net.core.somaxconn).
const backlog = 4096

// network creates the listeners for the allowed hosts and offers them to palyrad. The loopback
// interface is up by now. It changes nothing in palyrad's own network.
func network(n inside.Network, pass bool) error {
	if !n.Valid() {
		return fail(inside.StepNetwork, unix.EINVAL)
	}
	own, err := namespace("net")
	if err == nil && (n.Outside == 0 || own == n.Outside) {
		err = fail("the network is the host's", unix.EPERM)
	}
	if err != nil {
		return fail(inside.StepNetwork, err)
	}
	var families []string
	if !n.Offline {
		if families, err = capture(); err != nil {
			return fail(inside.StepNetwork, err)
		}
	}
	wide := unix.AF_INET6
	if !hasIPv6() {
		wide = unix.AF_INET
	}
	var fds []int
	for _, l := range n.Listeners() {
		fd, err := listen(l, wide)
		if err != nil {
			return fail(inside.StepNetwork, fail("port "+strconv.Itoa(int(l.Port)), err))
		}
		fds = append(fds, fd)
	}
	return fail(inside.StepNetwork, offer(inside.Report{Captured: families}, pass, fds...))
}

func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err != unix.EAFNOSUPPORT
}

// listen opens one socket. If it listens everywhere, family AF_INET6 serves IPv4 as well.
func listen(l inside.Listener, family int) (int, error) {
	kind := unix.SOCK_STREAM
	if l.UDP {
		kind = unix.SOCK_DGRAM
	}
	var at unix.Sockaddr = &unix.SockaddrInet4{Port: int(l.Port), Addr: [4]byte{127, 0, 0, 1}}
	switch {
	case !l.Everywhere:
		family = unix.AF_INET
	case family == unix.AF_INET:
		at = &unix.SockaddrInet4{Port: int(l.Port)}
	default:
		at = &unix.SockaddrInet6{Port: int(l.Port)}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil && !l.UDP {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// capture makes every address a local one (ip-route(8), type local), so that every connection of
// a tool reaches this namespace or is refused at once. It returns the address families for which
// this works. IPv6 may be disabled, and then has no route.
func capture() (families []string, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := addRoute(fd, unix.AF_INET); err != nil {
		return nil, fail("the route of "+inside.IPv4, err)
	}
	if err := captured(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}}); err != nil {
		return nil, fail("trying "+inside.IPv4, err)
	}
	err = addRoute(fd, unix.AF_INET6)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return []string{inside.IPv4}, nil
	}
	if err != nil {
		return nil, fail("the route of "+inside.IPv6, err)
	}
	if err := captured(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}}); err != nil {
		return nil, fail("trying "+inside.IPv6, err)
	}
	return []string{inside.IPv4, inside.IPv6}, nil
}

// captured connects to a port without a listener, at an address reserved for documentation (RFC
// 5737, RFC 3849). Here the connection is refused at once, and in any other network it is
// unreachable.
func captured(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, to); err != unix.ECONNREFUSED {
		return unix.ENETUNREACH
	}
	return nil
}

// routeRequest is a message of rtnetlink(7).
type routeRequest struct {
	header unix.NlMsghdr
	route  unix.RtMsg
	attr   unix.RtAttr
	device uint32
}

// addRoute adds the route to every address of a family. Its device is loopback, the first of
// every network namespace.
func addRoute(fd int, family uint8) error {
	const loopback = 1
	r := routeRequest{
		header: unix.NlMsghdr{Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL},
		route: unix.RtMsg{
			Family: family, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_HOST, Type: unix.RTN_LOCAL,
		},
		attr:   unix.RtAttr{Type: unix.RTA_OIF},
		device: loopback,
	}
	r.attr.Len = uint16(unsafe.Sizeof(r.attr) + unsafe.Sizeof(r.device))
	r.header.Len = uint32(unsafe.Sizeof(r))
	if _, err := unix.Write(fd, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))); err != nil {
		return err
	}
	var answer struct {
		header unix.NlMsghdr
		result unix.NlMsgerr
		_      [64]byte // the request may follow
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&answer)), unsafe.Sizeof(answer))
	n, err := unix.Read(fd, text)
	if err != nil {
		return err
	}
	if n < int(unsafe.Sizeof(answer.header)+unsafe.Sizeof(answer.result.Error)) || answer.header.Type != unix.NLMSG_ERROR {
		return unix.EPROTO
	}
	if answer.result.Error != 0 {
		return unix.Errno(-answer.result.Error)
	}
	return nil
}
