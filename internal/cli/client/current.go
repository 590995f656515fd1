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

	"palyra/internal/identity"
)

// current speaks to the gateway with the credential that a bundle holds at the time:
// another command, or palyrad, may give the bundle a new key while this one runs, and
// the old key ends soon after.
type current struct {
	a            *App
	dir, address string
	// local says that palyrad renews the bundle.
	local bool
	// socket is that of the local operator, where it may be used in the place of an address
	// that does not answer; "" for none.
	socket string

	mu     sync.Mutex
	bundle identity.Bundle
	file   os.FileInfo
	// tried is when a renewal was last tried.
	tried     time.Time
	transport *http.Transport
	// beside is the transport over the socket while it is used, nil before, and turned when
	// that began last.
	beside *http.Transport
	turned time.Time
}

// renewEvery is the pause between two tries to renew in a command that runs for long.
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
	if failed != nil { // nobody is at the socket either
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

// unreached reports whether a request failed before a connection stood, so that the gateway
// saw nothing of it.
func unreached(err error) bool {
	var broken *net.OpError
	var slow net.Error
	return errors.As(err, &broken) && broken.Op == "dial" || errors.As(err, &slow) && slow.Timeout() && strings.Contains(err.Error(), "TLS handshake")
}

// again is a request with its body from the beginning.
func again(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	r.Body = body
	return r, err
}

// viaSocket is the transport over the socket while it is used, nil while the address is. The
// address is tried again after a while.
func (c *current) viaSocket() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beside != nil && c.a.Now().Sub(c.turned) >= renewEvery {
		c.beside.CloseIdleConnections()
		c.beside = nil
	}
	return c.beside
}

// turnToSocket goes on over the socket, which answered, and says so once: what comes over it
// counts for less.
func (c *current) turnToSocket(t *http.Transport, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turned.IsZero() {
		c.a.Say("using the gateway's socket: %s does not answer (%s)", c.address, Explain(nil, why).Message)
	}
	c.beside, c.turned = t, c.a.Now()
}

// latest is the transport of the bundle as it is. What cannot be read now is no reason
// to give up what works.
func (c *current) latest(ctx context.Context) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reread()
	now := c.a.Now()
	if c.local || now.Before(c.bundle.RenewAt()) || now.Sub(c.tried) < renewEvery {
		return c.transport
	}
	c.tried = now
	if _, err := c.a.renewed(ctx, c.dir, c.bundle, c.address); err == nil {
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
				return // another key, which this command did not unlock
			}
			b.Key = c.bundle.Key
		}
		if !b.Chain[0].Equal(c.bundle.Chain[0]) {
			c.take(b)
		}
	}
}

// take goes on with another credential. Requests under way keep their connection.
func (c *current) take(b identity.Bundle) {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.bundle, c.transport = b, transport(b.ClientTLS())
}

// transport speaks HTTP/2 over TLS 1.3, with the certificate and the trust of c alone. It
// never goes through a proxy.
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

// telling is a transport whose errors say when the gateway refused the certificate. With
// TLS 1.3 a client sends before it learns of that, and then as likely meets a connection
// that broke off as the alert.
type telling struct{ *http.Transport }

// refusalWithin is how long the gateway has to refuse a certificate once more.
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

// refusal connects once more and sends nothing: what comes is the alert, nil where it is
// none. A gateway that takes the certificate begins to speak HTTP/2.
func (t telling) refusal(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, refusalWithin)
	defer cancel()
	cfg := t.TLSClientConfig.Clone()
	cfg.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: cfg}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil // there is no gateway, which the first error says
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
