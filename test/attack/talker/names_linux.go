package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// ask sends a handmade query to the connected name server. The operand is "TYPE NAME" or
// "TYPE NAME CLASS", where the type and the class are numbers and the default class is IN. Slashes
// separate the labels of the name, so that a label may contain any byte, including dots and zero
// bytes. It fails without a response.
func (c *conversation) ask(operand string) error {
	words := strings.Split(operand, " ")
	if len(words) < 2 {
		return errors.New("want a type and a name")
	}
	kind, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return err
	}
	class := uint64(1)
	if len(words) > 2 {
		if class, err = strconv.ParseUint(words[2], 10, 16); err != nil {
			return err
		}
	}
	return c.packet(string(query(words[1], uint16(kind), uint16(class))))
}

// query returns one question with recursion desired (RFC 1035 section 4.1).
func query(name string, kind, class uint16) []byte {
	q := []byte{0x70, 0x61, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, "/") {
		q = append(append(q, byte(len(label))), label...)
	}
	q = append(q, 0)
	q = binary.BigEndian.AppendUint16(q, kind)
	return binary.BigEndian.AppendUint16(q, class)
}

// packet sends a query in the given bytes, and reads the response.
func (c *conversation) packet(message string) error {
	_, stream := c.conn.(*net.TCPConn)
	if stream {
		message = string(binary.BigEndian.AppendUint16(nil, uint16(len(message)))) + message
	}
	if err := c.send(message); err != nil {
		return err
	}
	answer := make([]byte, 65536)
	if stream {
		if _, err := io.ReadFull(c.conn, answer[:2]); err != nil {
			return err
		}
		answer = answer[:binary.BigEndian.Uint16(answer)]
		if _, err := io.ReadFull(c.conn, answer); err != nil {
			return err
		}
	} else {
		n, err := c.conn.Read(answer)
		if err != nil {
			return err
		}
		answer = answer[:n]
	}
	return c.answered(answer)
}

// answered searches a response for any content.
func (c *conversation) answered(answer []byte) error {
	if len(answer) < 12 {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	rcode, records := answer[3]&15, binary.BigEndian.Uint16(answer[6:])
	if rcode != 0 || records == 0 {
		return fmt.Errorf("answer %d with %d records", rcode, records)
	}
	c.found = nil
	var m dnsmessage.Message
	_ = m.Unpack(answer) // the response may have no valid name
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			c.found = append(c.found, netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			c.found = append(c.found, netip.AddrFrom16(body.AAAA))
		}
	}
	return nil
}

// reach connects to a port of the address in the response.
func (c *conversation) reach(port string) error {
	if len(c.found) == 0 {
		return errors.New("no address was answered")
	}
	return c.dial("tcp", net.JoinHostPort(c.found[0].String(), port))
}

// sweep searches the hosts at addresses near the one in the response for the canary. The operand is
// the number of addresses, the port and the name: "64 80 name".
func (c *conversation) sweep(operand string) error {
	words := strings.Fields(operand)
	if len(words) < 3 || len(c.found) == 0 {
		return errors.New("want a number, a port and a name, and an address before")
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	addr := c.found[0]
	for range n / 2 {
		addr = addr.Prev()
	}
	var last error
	for range n {
		var c conversation
		_, last = c.hold([]string{"tcp " + net.JoinHostPort(addr.String(), words[1]), `send GET / HTTP/1.1\r\nHost: ` + words[2] + `\r\n\r\n`, "want"})
		if last == nil {
			return nil
		}
		addr = addr.Next()
	}
	return fmt.Errorf("the last of them: %w", last)
}
