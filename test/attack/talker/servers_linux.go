package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// servers wait inside for somebody from outside, or from another sandbox.
func servers() map[string]attack {
	return map[string]attack{"listen": listen, "listen-udp": listenUDP, "relay": relay}
}

// listen says a word to whoever connects to a port of its own. It takes an
// address, the word, and the place and the name of the host that tells when
// nobody comes any more.
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

// closeWhenVisited closes what waits for visitors once the host says that they
// have been there. Its error tells that they were not waited for.
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

// announce says the port.
func announce(at net.Addr) {
	if where, err := netip.ParseAddrPort(at.String()); err == nil {
		fmt.Printf("listening %d\n", where.Port())
	}
}

// listenUDP is listen for whoever sends something.
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
