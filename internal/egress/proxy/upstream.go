package proxy

import (
	"net"
	"net/netip"
	"time"

	"palyra/internal/egress"
)

// cut is the reason why a connection is aborted.
type cut struct{ verdict, reason string }

func (c *cut) Error() string { return "broken off: " + c.reason }

// denied returns the cut of a connection from which no data was passed on.
func denied(reason string) error { return &cut{egress.VerdictDenied, reason} }

// broken returns the cut of a connection that was already allowed.
func broken(reason string) error { return &cut{egress.VerdictAllowed, reason} }

// upstream is the host's end of a connection, and counts its bytes.
type upstream struct {
	net.Conn
	entry  *egress.Entry
	budget *budget
	open   *registry
	until  time.Time
	// left releases the place of the connection.
	left func()
}

// Read counts the bytes received from the host. Exceeding the budget aborts the connection.
func (u *upstream) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	u.entry.Received(int64(n))
	if !u.budget.in.take(int64(n)) {
		return 0, u.fail(broken(egress.ReasonBudgetBytesIn))
	}
	return n, err
}

// Write counts before it writes, because the host may answer before Write returns.
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

// fail aborts the connection, records the reason and returns the error.
func (u *upstream) fail(err error) error {
	decide(u.entry, err)
	reset(u.Conn)
	return err
}

// Close also ends the record of the connection. An expired time is recorded as the reason.
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

// CloseWrite signals the end of the data to the host.
func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// SetDeadline sets a deadline that is never later than the end of the connection's time.
// SetReadDeadline and SetWriteDeadline limit theirs in the same way.
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
