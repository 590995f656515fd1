package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// servers are attacks that wait inside for connections from outside, or from another sandbox.
func servers() map[string]attack {
	return map[string]attack{"listen": listen, "listen-udp": listenUDP, "relay": relay}
}

// listen sends a word to each client of its own port. The arguments are an address, the word, and
// the address and name of the host that reports the end of the test.
func listen(args []string) (string, error) {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return "", err
	}
	announce(l.Addr())
	nobody := closeWhenVisited(l, args[2], args[3])
	conn, err := l.Accept()
	if err != nil {
		return "", errors.Join(err, <-nobody)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, args[1])
	return conn.RemoteAddr().String(), err
}

// closeWhenVisited closes a listener once the host reports that the clients have connected. Its
// error is the failure of that wait.
func closeWhenVisited(waits io.Closer, at, name string) <-chan error {
	visited := make(chan error, 1)
	go func() {
		var c conversation
		_, err := c.hold([]string{"tcp " + at, `send GET /visited HTTP/1.1\r\nHost: ` + name + `\r\nConnection: close\r\n\r\n`, "want fine"})
		visited <- err
		_ = waits.Close()
	}()
	return visited
}

// announce prints the port.
func announce(at net.Addr) {
	if where, err := netip.ParseAddrPort(at.String()); err == nil {
		fmt.Printf("listening %d\n", where.Port())
	}
}

// listenUDP is listen for datagrams.
func listenUDP(args []string) (string, error) {
	c, err := net.ListenPacket("udp", args[0])
	if err != nil {
		return "", err
	}
	announce(c.LocalAddr())
	nobody := closeWhenVisited(c, args[2], args[3])
	_, from, err := c.ReadFrom(make([]byte, 64))
	if err != nil {
		return "", errors.Join(err, <-nobody)
	}
	_, err = c.WriteTo([]byte(args[1]), from)
	return from.String(), err
}

// relay forwards clients to an address that this sandbox may reach, until it is ended.
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
