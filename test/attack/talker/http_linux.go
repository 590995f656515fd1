package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// request sends the head of an HTTP/2 request on a new stream (RFC 9113). The operand consists
// of fields separated by spaces, such as ":method=GET :authority=x". Unless a field of an
// honest client is given, or excluded as "!name", request adds it. An underscore stands for a
// space.
func (c *conversation) request(operand string) error {
	if c.streams == 0 {
		if err := c.send(http2.ClientPreface); err != nil {
			return err
		}
	}
	framer := http2.NewFramer(c.conn, nil)
	framer.AllowIllegalWrites = true
	if c.streams == 0 {
		if err := framer.WriteSettings(); err != nil {
			return err
		}
		c.streams = 1
	} else {
		c.streams += 2
	}
	fields := strings.Fields(operand)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, usual := range []string{":method=GET", ":scheme=https", ":path=/"} {
		name, _, _ := strings.Cut(usual, "=")
		if !strings.Contains(" "+operand, " "+name+"=") && !strings.Contains(" "+operand, " !"+name) {
			fields = append([]string{usual}, fields...)
		}
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		if strings.HasPrefix(f, "!") {
			continue
		}
		value = strings.ReplaceAll(value, "_", " ")
		if err := encoder.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
			return err
		}
	}
	return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.streams, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
}

// fetch follows redirects, as clients do, and searches for the canary.
func (c *conversation) fetch(url string) error {
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // whose certificate comes is all the same to an attacker
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(canary)) {
		return fmt.Errorf("%s: %.200q", answer.Status, text)
	}
	return nil
}

// socks requests a connection from a SOCKS5 proxy (RFC 1928): "name port" with an unresolved name,
// or an address after "=".
func (c *conversation) socks(operand string) error {
	i := strings.LastIndexByte(operand, ' ')
	port, err := strconv.ParseUint(operand[i+1:], 10, 16)
	if err != nil {
		return err
	}
	if err := c.send("\x05\x01\x00"); err != nil {
		return err
	}
	answer := make([]byte, 10)
	if _, err := io.ReadFull(c.conn, answer[:2]); err != nil {
		return err
	}
	place := append([]byte{3, byte(i)}, operand[:i]...)
	if addr, err := netip.ParseAddr(strings.TrimPrefix(operand[:i], "=")); err == nil && operand[0] == '=' {
		place = append([]byte{1}, addr.AsSlice()...)
		if addr.Is6() {
			place[0] = 4
		}
	}
	ask := binary.BigEndian.AppendUint16(append([]byte{5, 1, 0}, place...), uint16(port))
	if err := c.send(string(ask)); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.conn, answer[:4]); err != nil {
		return err
	}
	if answer[1] != 0 {
		return fmt.Errorf("the proxy answered %d", answer[1])
	}
	rest := map[byte]int{1: net.IPv4len + 2, 4: net.IPv6len + 2}[answer[3]]
	_, err = io.CopyN(io.Discard, c.conn, int64(rest))
	return err
}
