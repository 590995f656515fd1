package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"
)

// hello sends a handmade ClientHello (RFC 8446 section 4.1.2). The operand is its form and the name
// or names in it. The response shows which server received it: the attacker's certificate contains
// the canary.
func (c *conversation) hello(operand string) error {
	how, names, _ := strings.Cut(operand, " ")
	list := strings.Fields(names)
	body := clientHello(how, list)
	record := func(kind byte, payload []byte) []byte {
		r := []byte{kind, 3, 1, 0, 0}
		binary.BigEndian.PutUint16(r[3:], uint16(len(payload)))
		return append(r, payload...)
	}
	const handshake = 22
	switch how {
	case "split": // in the middle of the name
		half := len(body) - 20
		return c.send(string(record(handshake, body[:half])) + string(record(handshake, body[half:])))
	case "drip":
		for _, b := range record(handshake, body) {
			if _, err := c.conn.Write([]byte{b}); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	case "empty-record":
		return c.send(string(record(handshake, nil)) + string(record(handshake, body)))
	case "alert-first":
		return c.send(string(record(21, []byte{1, 0})) + string(record(handshake, body)))
	case "cipher-first":
		return c.send(string(record(20, nil)) + string(record(handshake, body)))
	case "odd-version":
		odd := record(handshake, body)
		odd[1] = 2
		return c.send(string(odd))
	case "two-hellos":
		second := clientHello("plain", list[1:])
		return c.send(string(record(handshake, append(clientHello("plain", list[:1]), second...))))
	case "truncated":
		_, err := c.conn.Write(record(handshake, body)[:60])
		return err
	case "sslv2":
		return c.send("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + strings.Repeat("\x00\x00\x35", 7) + strings.Repeat("r", 16))
	case "long-length":
		body[1] = 0xff
	}
	return c.send(string(record(handshake, body)))
}

// clientHello returns the handshake message.
func clientHello(how string, names []string) []byte {
	random := make([]byte, 32)
	_, _ = io.ReadFull(rand.Reader, random)
	b := append([]byte{3, 3}, random...)
	b = append(b, 0)                                              // no session
	b = append(b, 0, 6, 0xc0, 0x2b, 0xc0, 0x2f, 0x13, 0x01)       // ECDHE with AES-128-GCM, TLS 1.2 and 1.3
	b = append(b, 1, 0)                                           // no compression
	all := extension(10, []byte{0, 4, 0, 23, 0, 29})              // P-256, X25519
	all = append(all, extension(11, []byte{1, 0})...)             // uncompressed points
	all = append(all, extension(13, []byte{0, 4, 4, 3, 8, 4})...) // ECDSA with P-256, RSA-PSS
	all = append(all, extension(0xff01, []byte{0})...)            // secure renegotiation
	switch how {
	case "ech":
		all = append(all, extension(0xfe0d, append([]byte{0, 0, 1, 0, 1, 7, 0, 0, 0, 64}, make([]byte, 64)...))...)
		all = append(all, serverNames(names...)...)
	case "retry": // TLS 1.3 without a key share, so that the server requests another hello
		all = append(all, extension(43, []byte{2, 3, 4})...)
		all = append(all, extension(51, []byte{0, 0})...)
		all = append(all, serverNames(names...)...)
	case "two-extensions":
		for _, n := range names {
			all = append(all, serverNames(n)...)
		}
	case "two-names", "plain", "split", "drip", "empty-record", "alert-first", "cipher-first", "odd-version", "two-hellos", "truncated", "long-length":
		all = append(all, serverNames(names...)...)
	case "other-type":
		entry := serverNames(names...)
		entry[6] = 1 // no host_name
		all = append(all, entry...)
	case "zero-byte":
		all = append(all, serverNames(strings.Join(names, "\x00"))...)
	case "empty-name":
		all = append(all, serverNames("")...)
	case "nameless":
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(all)))
	b = append(b, all...)
	return append([]byte{1, 0, byte(len(b) >> 8), byte(len(b))}, b...)
}

func extension(kind uint16, data []byte) []byte {
	e := binary.BigEndian.AppendUint16(nil, kind)
	e = binary.BigEndian.AppendUint16(e, uint16(len(data)))
	return append(e, data...)
}

// serverNames returns the extension of RFC 6066 section 3.
func serverNames(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, 0)
		list = binary.BigEndian.AppendUint16(list, uint16(len(n)))
		list = append(list, n...)
	}
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

var errNoAnswer = errors.New("nothing came back")
