package proxy

import (
	"errors"
	"io"
	"os"

	"palyra/internal/egress"
	"palyra/internal/egress/proxy/hello"
)

// readHello reads the first message of a TLS client and checks that it requests the target. The
// bytes can be read again. Errors are hello.ErrNotTLS, cuts, and errors of the connection.
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

// checkName compares the server name with the target. TLS to an address must not have a name:
// with one, the program could choose the host behind the address freely. An encrypted hello
// passes if its outer name is the target's; the inner name is not visible. Encrypted hellos are
// not refused in general, because clients also send them without meaning (GREASE). HTTPS
// records get an empty answer, so that clients find no key.
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

// tooSlow returns the cut of a client that exceeded its time, or err.
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
