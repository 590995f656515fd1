// Package proxy carries the connections of one sandboxed program to the hosts
// that its grant allows, and no others. It accepts on listeners that were made
// inside the sandbox and handed out, so that nothing of it runs inside.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"

	"palyra/internal/egress"
	"palyra/internal/tool"
)

// Outward is the world outside as sessions see it. Its zero value is the real
// one.
type Outward struct {
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that inspected hosts are verified
	// against; nil means the system's.
	Roots *x509.CertPool
}

// Listeners were made inside a sandbox, in its network namespace.
type Listeners struct {
	// Names and NamesTCP are the name service at 127.0.0.1:53.
	Names    net.PacketConn
	NamesTCP net.Listener
	// HTTP is the proxy at 127.0.0.1:3128, SOCKS the one at 127.0.0.1:1080.
	HTTP  net.Listener
	SOCKS net.Listener
	// Ports take whatever goes to a port of Session.Ports, in that order; the
	// local address of a connection is where the program wanted to go.
	Ports []net.Listener
}

// Session serves one program.
type Session struct {
	grant   egress.Grant
	outward Outward
}

// New returns a session for a grant that passed its Check.
func New(g egress.Grant, out Outward) (*Session, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	return &Session{grant: g, outward: out}, nil
}

// Ports are those that the sandbox has to listen on.
func (s *Session) Ports() []uint16 { return s.grant.Ports() }

// Bundle is what programs are to trust, in PEM: the system's authorities and
// that of the session. It is nil when no host is inspected.
func (s *Session) Bundle() []byte { return nil }

// Env holds name=value pairs for the program: where the bundle is, and the
// placeholders of secrets.
func (s *Session) Env(bundle string) []string { return nil }

// Serve carries connections until ctx ends; then it breaks off those that are
// left, closes the listeners and returns.
func (s *Session) Serve(ctx context.Context, l Listeners) error { return errors.New("not written") }

// Scrub returns r without the secrets of the session.
func (s *Session) Scrub(r io.Reader) io.Reader { return r }

// Connections are what the program tried to reach, in order, and how many more
// there were than are listed.
func (s *Session) Connections() (list []tool.Connection, missed int) { return nil, 0 }

// Close wipes the secrets. Serve has returned, or was never called.
func (s *Session) Close() error { return nil }
