package proxy

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// caller is the program's end of a connection.
type caller struct {
	net.Conn
	// early was read already, and is to be read again.
	early []byte
	// until is when the connection has lasted long enough.
	until time.Time
	// said is called when all that the program said is passed on.
	said func()
}

// mostAtOnce is how much is read of what a program says before it is known
// what that is.
const mostAtOnce = 4 << 10

// Read returns what was read early before anything else.
func (c *caller) Read(b []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(b, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil
		}
		return n, nil
	}
	return c.Conn.Read(b)
}

// unread puts bytes back.
func (c *caller) unread(b []byte) {
	if len(b) > 0 {
		c.early = append(b[:len(b):len(b)], c.early...)
	}
}

// more reads something behind what is early.
func (c *caller) more(read func([]byte) (int, error)) error {
	had := len(c.early)
	c.early = slices.Grow(c.early, mostAtOnce)
	n, err := read(c.early[had : had+mostAtOnce])
	c.early = c.early[:had+n]
	if n > 0 {
		return nil
	}
	return err
}

// CloseWrite tells the program that nothing more comes.
func (c *caller) CloseWrite() error { return closeWrite(c.Conn) }

// patience bounds how long the program may take for what is read next.
func (c *caller) patience(d time.Duration) error {
	return c.SetReadDeadline(time.Now().Add(d))
}

// SetDeadline keeps to the time of the connection, like those for reading and
// writing.
func (c *caller) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(sooner(t, c.until)) }

// SetReadDeadline is SetDeadline for reading.
func (c *caller) SetReadDeadline(t time.Time) error {
	return c.Conn.SetReadDeadline(sooner(t, c.until))
}

// SetWriteDeadline is SetDeadline for writing.
func (c *caller) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(sooner(t, c.until))
}

// sooner is the sooner of a deadline, of which zero is none, and a limit.
func sooner(t, limit time.Time) time.Time {
	if t.IsZero() || limit.Before(t) {
		return limit
	}
	return t
}

// destination is where the program wanted to go: a sandbox takes every address
// for its own, so it is the local one.
func (c *caller) destination() netip.AddrPort {
	tcp, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// closeWrite passes on that one side has said all; the other may go on.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// reset breaks a connection off, so that its peer does not take what it got
// for the whole.
func reset(c net.Conn) {
	if tcp, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it is closed already, or will be
	}
	_ = c.Close()
}
