package proxy

import (
	"net"
	"net/netip"
	"time"

	"palyra/internal/egress"
)

// cut is why a connection is broken off.
type cut struct{ verdict, reason string }

func (c *cut) Error() string { return "broken off: " + c.reason }

// denied cuts a connection off of which nothing was passed on.
func denied(reason string) error { return &cut{egress.VerdictDenied, reason} }

// broken cuts a connection off in its midst.
func broken(reason string) error { return &cut{egress.VerdictAllowed, reason} }

// upstream is the host's end of a connection, which counts what passes.
type upstream struct {
	net.Conn
	entry  *egress.Entry
	budget *budget
	open   *registry
	until  time.Time
	// left gives its place back.
	left func()
}

// Read counts what the host sent. What is over the budget breaks the
// connection off.
func (u *upstream) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	u.entry.Received(int64(n))
	if !u.budget.in.take(int64(n)) {
		return 0, u.fail(broken(egress.ReasonBudgetBytesIn))
	}
	return n, err
}

// Write counts before it writes, as the host may have answered by the time that
// Write comes back.
func (u *upstream) Write(b []byte) (int, error) {
	if !u.budget.out.take(int64(len(b))) {
		return 0, u.fail(broken(egress.ReasonBudgetBytesOut))
	}
	u.entry.Sent(int64(len(b)))
	n, err := u.Conn.Write(b)
	u.entry.Sent(int64(n - len(b)))
	u.budget.out.giveBack(int64(len(b) - n))
	return n, err
}

// fail breaks the connection off, records why and returns it.
func (u *upstream) fail(err error) error {
	decide(u.entry, err)
	reset(u.Conn)
	return err
}

// Close ends the record of the connection, too. When its time is up, that is
// what ended it.
func (u *upstream) Close() error {
	if !time.Now().Before(u.until) {
		decide(u.entry, broken(egress.ReasonBudgetTime))
	}
	u.open.remove(u.Conn)
	defer u.left()
	err := u.Conn.Close()
	u.entry.End()
	return err
}

// CloseWrite tells the host that nothing more comes.
func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// SetDeadline keeps to the time of the connection, like those for reading and
// writing.
func (u *upstream) SetDeadline(t time.Time) error { return u.Conn.SetDeadline(sooner(t, u.until)) }

// SetReadDeadline is SetDeadline for reading.
func (u *upstream) SetReadDeadline(t time.Time) error {
	return u.Conn.SetReadDeadline(sooner(t, u.until))
}

// SetWriteDeadline is SetDeadline for writing.
func (u *upstream) SetWriteDeadline(t time.Time) error {
	return u.Conn.SetWriteDeadline(sooner(t, u.until))
}

func decide(e *egress.Entry, err error) {
	if c, ok := asCut(err); ok {
		e.Decide(c.verdict, c.reason, egress.Rule{}, netip.Addr{})
	}
}
