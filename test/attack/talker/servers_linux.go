package main

import (
	"errors"
	"fmt"
	"io"
	"net"
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
	fmt.Printf("listening %d\n", l.Addr().(*net.TCPAddr).Port)
	conn, err := accept(l)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, canary)
	return conn.RemoteAddr().String(), err
}

func accept(l net.Listener) (net.Conn, error) {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(invited)); err != nil {
		return nil, err
	}
	return l.Accept()
}

// listenUDP says the canary to whoever sends something.
func listenUDP(args []string) (string, error) {
	c, err := net.ListenPacket("udp", args[0])
	if err != nil {
		return "", err
	}
	fmt.Printf("listening %d\n", c.LocalAddr().(*net.UDPAddr).Port)
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
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return "", err
	}
	fmt.Printf("listening %d\n", l.Addr().(*net.TCPAddr).Port)
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
