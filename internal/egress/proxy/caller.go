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
	// early holds bytes that were already read and must be returned again.
	early []byte
	// until is the time at which the connection must end.
	until time.Time
	// said is called when all data of the program is passed on.
	said func()
}

// mostAtOnce limits the bytes read from a program before their protocol is recognised.
const mostAtOnce = 4 << 10

// Read returns the early bytes first.
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

// more reads bytes and appends them to the early ones.
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

// CloseWrite signals the end of the data to the program.
func (c *caller) CloseWrite() error { return closeWrite(c.Conn) }

// patience sets the deadline for the program's next data.
func (c *caller) patience(d time.Duration) error {
	return c.SetReadDeadline(time.Now().Add(d))
}

// SetDeadline sets a deadline that is never later than the end of the connection's time.
// SetReadDeadline and SetWriteDeadline limit theirs in the same way.
func (c *caller) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(sooner(t, c.until)) }

// SetReadDeadline is SetDeadline for reading.
func (c *caller) SetReadDeadline(t time.Time) error {
	return c.Conn.SetReadDeadline(sooner(t, c.until))
}

// SetWriteDeadline is SetDeadline for writing.
func (c *caller) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(sooner(t, c.until))
}

// sooner returns the earlier of a deadline, where zero means none, and a limit.
func sooner(t, limit time.Time) time.Time {
	if t.IsZero() || limit.Before(t) {
		return limit
	}
	return t
}

// destination returns the address that the program connected to: a sandbox accepts every
// address locally, so the destination is the connection's local address.
func (c *caller) destination() netip.AddrPort {
	tcp, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// closeWrite signals the end of one direction; the other may continue.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// reset aborts a connection with a reset, so that the peer does not treat the received data as
// complete.
func reset(c net.Conn) {
	if tcp, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it is closed already, or will be
	}
	_ = c.Close()
}
