package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the timeout of every conversation. A refusal comes at once, so a row that reaches the
// timeout was not denied, and fails.
const patience = 2 * time.Minute

// silence is the timeout for a UDP response. A single lost packet does not count as a refusal.
const silence = 4 * time.Second

// talks are conversations with hosts on the network. Every argument is one step: a word and its
// operand. Conversations are separated by "or"; the attack succeeds if one of them completes.
func talks() map[string]attack {
	return map[string]attack{"talk": talk}
}

func talk(steps []string) (string, error) {
	var failed error
	for len(steps) > 0 {
		var c conversation
		one := steps
		steps = nil
		for i, step := range one {
			if step == "or" {
				one, steps = one[:i], one[i+1:]
				break
			}
		}
		detail, err := c.hold(one)
		if err == nil {
			return detail, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", failed
}

// conversation has one connection at a time.
type conversation struct {
	conn net.Conn
	// heard is the data that was read and not yet used.
	heard []byte
	// found are the addresses in the last response of a name server.
	found []netip.Addr
	// streams counts the requests of an HTTP/2 connection.
	streams uint32
}

// steps returns all steps of a conversation.
func (c *conversation) steps() map[string]func(operand string) error {
	return map[string]func(string) error{
		"tcp":    func(to string) error { return c.dial("tcp", to) },
		"udp":    func(to string) error { return c.dial("udp", to) },
		"mapped": c.mapped,
		"send":   c.send,
		"flood":  c.flood,
		"want":   c.want,
		"pause":  pause,
		"maybe":  c.maybe,
		"drip":   c.drip,
		"note":   func(string) error { return nil },
		"say":    func(text string) error { _, err := fmt.Println(text); return err },
		"tls":    c.secure,
		"hello":  c.hello,
		"h2":     c.request,
		"fetch":  c.fetch,
		"socks":  c.socks,
		"ask":    c.ask,
		"packet": c.packet,
		"reach":  c.reach,
		"sweep":  c.sweep,
		"many":   many,
		"secret": c.secret,
	}
}

// hold runs the steps and closes the connection.
func (c *conversation) hold(steps []string) (detail string, err error) {
	defer c.hangUp()
	return c.take(steps)
}

func (c *conversation) take(steps []string) (detail string, err error) {
	all := c.steps()
	for _, step := range steps {
		word, operand, _ := strings.Cut(step, " ")
		do, ok := all[word]
		if !ok {
			return "", fmt.Errorf("no such step: %s", word)
		}
		operand, err := unquote(operand)
		if err == nil {
			err = do(operand)
		}
		if err != nil {
			return "", fmt.Errorf("%.80q: %w", step, err)
		}
		detail = step
	}
	return detail, nil
}

func (c *conversation) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// unquote parses the escapes of Go, and expands environment variables.
func unquote(text string) (string, error) {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	return os.ExpandEnv(plain), err
}

// dial connects by name or address, as any program does. It abandons the earlier connection.
func (c *conversation) dial(network, to string) error {
	dialer := net.Dialer{Timeout: patience, FallbackDelay: -1}
	conn, err := dialer.Dial(network, to)
	if err != nil {
		return err
	}
	return c.use(conn)
}

func (c *conversation) use(conn net.Conn) error {
	c.hangUp()
	c.conn, c.heard, c.streams = conn, nil, 0
	wait := patience
	if _, ok := conn.(*net.UDPConn); ok {
		wait = silence
	}
	return conn.SetDeadline(time.Now().Add(wait))
}

// mapped connects to an IPv4 address in its IPv6 form.
func (c *conversation) mapped(to string) error {
	where, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "mapped")
	defer f.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(where.Port()), Addr: where.Addr().As16()}); err != nil {
		return err
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return err
	}
	return c.use(conn)
}

func (c *conversation) send(text string) error {
	_, err := io.WriteString(c.conn, text)
	return err
}

// flood sends a number of bytes.
func (c *conversation) flood(operand string) error {
	n, err := strconv.Atoi(operand)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(bytes.Repeat([]byte("x"), n))
	return err
}

// drip sends single bytes.
func (c *conversation) drip(text string) error {
	for _, b := range []byte(text) {
		if _, err := c.conn.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// want reads until the text arrives, by default the canary.
func (c *conversation) want(text string) error {
	if text == "" {
		text = canary
	}
	buffer := make([]byte, 64<<10)
	for {
		if i := bytes.Index(c.heard, []byte(text)); i >= 0 {
			c.heard = c.heard[i+len(text):]
			return nil
		}
		n, err := c.conn.Read(buffer)
		c.heard = append(c.heard, buffer[:n]...)
		if err != nil && n == 0 {
			return fmt.Errorf("%w after %.300q", err, c.heard)
		}
	}
}

// maybe runs a step that may fail.
func (c *conversation) maybe(step string) error {
	word, operand, _ := strings.Cut(step, " ")
	do, ok := c.steps()[word]
	if !ok {
		return fmt.Errorf("no such step: %s", word)
	}
	_ = do(operand)
	return nil
}

func pause(operand string) error {
	d, err := time.ParseDuration(operand)
	time.Sleep(d)
	return err
}

// secure starts TLS with a name, "-" for none, and offers the protocols that follow it. It accepts
// any certificate.
func (c *conversation) secure(operand string) error {
	name, protocols, _ := strings.Cut(operand, " ")
	cfg := &tls.Config{ServerName: strings.TrimPrefix(name, "-"), InsecureSkipVerify: true, NextProtos: strings.Fields(protocols)} //nolint:gosec // see above
	conn := tls.Client(c.conn, cfg)
	if err := conn.Handshake(); err != nil {
		return err
	}
	c.conn, c.heard = conn, nil
	return nil
}

// many opens connections to one address and holds them all: "64 host:port text".
func many(operand string) error {
	words := strings.SplitN(operand, " ", 3)
	n, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 3 {
		return errors.Join(errors.New("want a number, a place and a text"), err)
	}
	for i := range n {
		var c conversation
		defer c.hangUp()
		if err := errors.Join(c.dial("tcp", words[1])); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		if err := c.send(words[2]); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		if err := c.want("fine"); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return nil
}
