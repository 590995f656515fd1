package proxy

import (
	"errors"
	"io"
	"os"

	"palyra/internal/egress"
	"palyra/internal/egress/proxy/hello"
)

// readHello reads what a TLS client says first and checks that it asks for the
// target. The bytes are put back. Errors are hello.ErrNotTLS, with all there
// is to be read again, cuts, and those of the connection.
func readHello(c *caller, t egress.Target) error {
	h, raw, err := hello.Read(c, hello.Most)
	c.unread(raw)
	switch {
	case err == nil:
		return checkName(h, t)
	case errors.Is(err, hello.ErrMalformed), errors.Is(err, hello.ErrTooLong), errors.Is(err, io.ErrUnexpectedEOF):
		return denied(egress.ReasonBadTLS)
	}
	return tooSlow(err)
}

// checkName compares the server name with the target. To an address TLS is
// spoken without a name: with one, the host behind the address could be chosen
// freely. An encrypted hello passes when its outer name is the target's; the
// inner one nobody can see.
func checkName(h hello.Hello, t egress.Target) error {
	host, err := egress.CanonicalHost(h.ServerName)
	_, address := t.Host.Addr()
	switch {
	case err == nil && host == t.Host, address && h.ServerName == "" && !h.ECH:
		return nil
	case h.ECH:
		return denied(egress.ReasonEncryptedName)
	case h.ServerName == "":
		return denied(egress.ReasonNoName)
	}
	return denied(egress.ReasonNameMismatch)
}

// tooSlow is the cut of a client that let its time pass by, or err.
func tooSlow(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return denied(egress.ReasonSlow)
	}
	return err
}

func asCut(err error) (*cut, bool) {
	var c *cut
	ok := errors.As(err, &c)
	return c, ok
}
