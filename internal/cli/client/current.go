package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
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

	mu     sync.Mutex
	bundle identity.Bundle
	file   os.FileInfo
	// tried is when a renewal was last tried.
	tried     time.Time
	transport *http.Transport
}

// renewEvery is the pause between two tries to renew in a command that runs for long.
const renewEvery = time.Minute

// RoundTrip implements http.RoundTripper.
func (c *current) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.latest(r.Context()).RoundTrip(r)
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
