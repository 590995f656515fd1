package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// tryAll makes one attempt for each word, of the form KIND,ARGUMENTS, and prints the results.
func tryAll(words []string) error {
	kinds := map[string]func(...string) (string, error){
		"tcp": talk, "udp": datagram, "dns": ask, "tls": handshake, "http": request, "raw": raw,
	}
	for _, word := range words {
		args := strings.Split(word, ",")
		try := kinds[args[0]]
		if try == nil {
			return errors.New("no such thing: " + word)
		}
		said, err := try(args[1:]...)
		if err != nil {
			said = outcome(err)
		}
		fmt.Println(word, said)
	}
	return nil
}

// dial uses one address family for a name. With both, a reset during a connection would lead to an
// attempt with the other.
func dial(network, address string) (net.Conn, error) {
	if target, err := netip.ParseAddrPort(address); err != nil || target.Addr().Is4() {
		network += "4"
	}
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// talk sends a line and returns the response line.
func talk(args ...string) (string, error) {
	conn, err := dial("tcp", args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// datagram sends a datagram and waits for a response.
func datagram(args ...string) (string, error) {
	conn, err := dial("udp", args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// The first datagram is lost; its error is returned for the second.
	for range 2 {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return "", err
		}
	}
	_, err = conn.Read(make([]byte, 512))
	return "answered", err
}

// ask sends a query to a given name server: network, server, name.
func ask(args ...string) (string, error) {
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(args[2]), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	if err != nil {
		return "", err
	}
	conn, err := dial(args[0], args[1])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	reply := make([]byte, 514)
	start := 0
	if args[0] == "tcp" {
		packed, start = append([]byte{0, byte(len(packed))}, packed...), 2
	}
	if _, err := conn.Write(packed); err != nil {
		return "", err
	}
	n, err := conn.Read(reply)
	if err != nil {
		return "", err
	}
	var m dnsmessage.Message
	if err := m.Unpack(reply[start:n]); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s with %d answers", strings.TrimPrefix(m.RCode.String(), "RCode"), len(m.Answers)), nil
}

// handshake starts TLS to an address with a server name, "" for none.
func handshake(args ...string) (string, error) {
	conn, err := dial("tcp", args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	c := &tls.Config{ServerName: args[1], MinVersion: tls.VersionTLS12}
	if args[1] == "" {
		// Without a name nothing can be verified; the expected result is no response.
		c.InsecureSkipVerify = true
	}
	return "spoken to", tls.Client(conn, c).Handshake()
}

// request requests a host from an address, and returns the first line and the body of the response.
func request(args ...string) (string, error) {
	conn, err := dial("tcp", args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", args[1]); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	return resp.Status, nil
}

// raw opens a socket below TCP and UDP.
func raw(args ...string) (string, error) {
	sockets := map[string][3]int{
		"icmp4":  {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"icmp6":  {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
		"ip":     {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0},
		"vsock":  {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"unix":   {unix.AF_UNIX, unix.SOCK_STREAM, 0},
		"xdp":    {unix.AF_XDP, unix.SOCK_RAW, 0},
	}
	s, ok := sockets[args[0]]
	if !ok {
		return "", errors.New("no such socket")
	}
	fd, err := unix.Socket(s[0], s[1], s[2])
	if err != nil {
		return "", err
	}
	return "opened", unix.Close(fd)
}
