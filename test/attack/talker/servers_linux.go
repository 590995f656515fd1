package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// servers wait inside for somebody from outside, or from another sandbox.
func servers() map[string]attack {
	return map[string]attack{"listen": listen, "listen-udp": listenUDP, "relay": relay}
}

// invited is how long one waits for somebody to come.
const invited = 400 * time.Millisecond

// listen says the canary to whoever connects to a port of its own.
func listen(args []string) (string, error) {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return "", err
	}
	announce(l.Addr())
	conn, err := accept(l)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, canary)
	return conn.RemoteAddr().String(), err
}

// announce says the port.
func announce(at net.Addr) {
	if where, err := netip.ParseAddrPort(at.String()); err == nil {
		fmt.Printf("listening %d\n", where.Port())
	}
}

func accept(l net.Listener) (net.Conn, error) {
	if tcp, ok := l.(*net.TCPListener); ok {
		_ = tcp.SetDeadline(time.Now().Add(invited))
	}
	return l.Accept()
}

// listenUDP says the canary to whoever sends something.
func listenUDP(args []string) (string, error) {
	c, err := net.ListenPacket("udp", args[0])
	if err != nil {
		return "", err
	}
	announce(c.LocalAddr())
	if err := c.SetDeadline(time.Now().Add(invited)); err != nil {
		return "", err
	}
	_, from, err := c.ReadFrom(make([]byte, 64))
	if err != nil {
		return "", err
	}
	_, err = c.WriteTo([]byte(canary), from)
	return from.String(), err
}

// relay carries whoever connects to a place that this sandbox may reach, until
// it is ended.
func relay(args []string) (string, error) {
	l, err := net.Listen("tcp", ":0") //nolint:gosec // the more it can be reached, the better the attack
	if err != nil {
		return "", err
	}
	announce(l.Addr())
	for {
		from, err := l.Accept()
		if err != nil {
			return "", err
		}
		to, err := net.DialTimeout("tcp", args[0], patience)
		if err != nil {
			return "", errors.Join(err, from.Close())
		}
		go func() { _, _ = io.Copy(to, from) }()
		go func() { _, _ = io.Copy(from, to); from.Close() }()
	}
}
