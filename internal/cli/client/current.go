package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra/internal/cli/printer"
	"palyra/internal/identity"
)

// current uses the present credential of a bundle. Another command, or palyrad, may renew its
// key while this one runs, and the old key expires soon after.
type current struct {
	out          *printer.Printer
	renewals     renewer
	dir, address string
	// local is true if palyrad renews the bundle.
	local bool
	// socket is the local operator's socket, which may replace an address that does not respond; ""
	// for none.
	socket string

	mu     sync.Mutex
	bundle identity.Bundle
	file   os.FileInfo
	// tried is the time of the last renewal attempt.
	tried     time.Time
	transport *http.Transport
	// beside is the transport over the socket while it is in use, nil before; turned is when its
	// use started.
	beside *http.Transport
	turned time.Time
}

// renewEvery is the pause between two renewal attempts in a long-running command.
const renewEvery = time.Minute

// RoundTrip implements http.RoundTripper.
func (c *current) RoundTrip(r *http.Request) (*http.Response, error) {
	if beside := c.viaSocket(); beside != nil {
		return overSocket(beside, r)
	}
	res, err := telling{c.latest(r.Context())}.RoundTrip(r)
	if err == nil || c.socket == "" || !unreached(err) || r.Body != nil && r.GetBody == nil {
		return res, err
	}
	if _, gone := os.Stat(c.socket); gone != nil {
		return res, err
	}
	once, failed := again(r)
	if failed != nil {
		return res, err
	}
	t := socketTransport(c.socket)
	over, failed := overSocket(t, once)
	if failed != nil { // the socket is not available either
		return res, err
	}
	c.turnToSocket(t, err)
	return over, nil
}

func overSocket(t *http.Transport, r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", "localhost"
	return t.RoundTrip(r)
}

// unreached reports whether a request failed before a connection was established, so that the
// gateway did not receive it.
func unreached(err error) bool {
	var broken *net.OpError
	var slow net.Error
	return errors.As(err, &broken) && broken.Op == "dial" || errors.As(err, &slow) && slow.Timeout() && strings.Contains(err.Error(), "TLS handshake")
}

// again returns a copy of a request with its body from the start.
func again(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	r.Body = body
	return r, err
}

// viaSocket returns the transport over the socket while it is in use, nil otherwise. The address is
// tried again after a while.
func (c *current) viaSocket() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beside != nil && c.out.Now().Sub(c.turned) >= renewEvery {
		c.beside.CloseIdleConnections()
		c.beside = nil
	}
	return c.beside
}

// turnToSocket switches to the socket and reports it once, because requests over it have fewer
// permissions.
func (c *current) turnToSocket(t *http.Transport, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turned.IsZero() {
		c.out.Say("using the gateway's socket: %s does not answer (%s)", c.address, Explain(nil, why).Message)
	}
	c.beside, c.turned = t, c.out.Now()
}

// latest returns the transport of the bundle's present credential. If the bundle is not readable
// now, the previous credential is kept.
func (c *current) latest(ctx context.Context) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reread()
	now := c.out.Now()
	if c.local || now.Before(c.bundle.RenewAt()) || now.Sub(c.tried) < renewEvery {
		return c.transport
	}
	c.tried = now
	if _, err := c.renewals.renewed(ctx, c.dir, c.bundle, c.address); err == nil {
		c.reread()
	}
	return c.transport
}

func (c *current) reread() {
	file, err := os.Stat(filepath.Join(c.dir, identity.CredentialFile))
	if err != nil || c.file != nil && os.SameFile(file, c.file) && file.ModTime().Equal(c.file.ModTime()) {
		return
	}
	if b, err := identity.ReadBundle(c.dir); err == nil {
		c.file = file
		if b.Kept != nil {
			if !bytes.Equal(b.Chain[0].RawSubjectPublicKeyInfo, c.bundle.Chain[0].RawSubjectPublicKeyInfo) {
				return // this command has not unlocked the other key
			}
			b.Key = c.bundle.Key
		}
		if !b.Chain[0].Equal(c.bundle.Chain[0]) {
			c.take(b)
		}
	}
}

// take switches to another credential. Active requests keep their connection.
func (c *current) take(b identity.Bundle) {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.bundle, c.transport = b, transport(b.ClientTLS())
}

// transport speaks HTTP/2 over TLS 1.3, with only the certificate and the trust of c. It never uses
// a proxy.
func transport(c *tls.Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:               nil,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		Protocols:           &protocols,
		ForceAttemptHTTP2:   true,
		TLSClientConfig:     c,
		TLSHandshakeTimeout: dialTimeout,
	}
}

// telling is a transport whose errors report a refused certificate. With TLS 1.3 a client sends
// before it receives the refusal, and then may see a broken connection instead of the alert.
type telling struct{ *http.Transport }

// refusalWithin is the timeout of the second connection, which repeats the refusal of a
// certificate.
const refusalWithin = time.Second

// RoundTrip implements http.RoundTripper.
func (t telling) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Transport.RoundTrip(r)
	var broken *net.OpError
	if err == nil || r.Context().Err() != nil || errors.As(err, &broken) && broken.Op == "dial" || strings.Contains(err.Error(), "tls: ") {
		return res, err
	}
	if refusal := t.refusal(r.Context(), r.URL.Host); refusal != nil {
		return nil, refusal
	}
	return nil, err
}

// refusal connects again without sending data and returns the TLS alert, or nil. A
// gateway that accepts the certificate starts HTTP/2.
func (t telling) refusal(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, refusalWithin)
	defer cancel()
	cfg := t.TLSClientConfig.Clone()
	cfg.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: cfg}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil // the gateway is not reachable, as the first error states
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(end); err != nil {
		return nil
	}
	if _, err = conn.Read(make([]byte, 1)); err != nil && strings.Contains(err.Error(), "remote error: tls: ") {
		return err
	}
	return nil
}
