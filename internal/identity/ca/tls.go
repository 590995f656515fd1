package ca

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
)

// VerifyDevice proves that a chain belongs to a device of this gateway and is valid now, and
// returns the device's ULID. It does not check revocation.
func (a *Authority) VerifyDevice(chain []*x509.Certificate) (deviceID string, err error) {
	return a.verifyDevice(chain, a.root.now())
}

// RenewableFor is how long after its expiry a device's certificate may still be renewed.
const RenewableFor = 30 * 24 * time.Hour

// VerifyExpired verifies that a chain belongs to a device of this gateway and expired at most
// RenewableFor ago. It MUST be used only for the renewal of that certificate. It also refuses a
// certificate that has not expired.
func (a *Authority) VerifyExpired(chain []*x509.Certificate) (deviceID string, err error) {
	if len(chain) == 0 {
		return a.verifyDevice(chain, a.root.now())
	}
	end := chain[0].NotAfter
	switch now := a.root.now(); {
	case !now.After(end):
		return "", reason.Errorf(reason.Unauthenticated, "the client certificate has not expired")
	case now.After(end.Add(RenewableFor)):
		return "", reason.Errorf(reason.Unauthenticated, "the client certificate expired at %s, more than 30 days ago", end.Format(time.RFC3339))
	}
	return a.verifyDevice(chain, end)
}

func (a *Authority) verifyDevice(chain []*x509.Certificate, at time.Time) (deviceID string, err error) {
	if len(chain) == 0 {
		return "", reason.Errorf(reason.Unauthenticated, "no client certificate was presented")
	}
	roots, middle := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(a.root.cert)
	for _, c := range chain[1:] {
		middle.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: middle, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return "", reason.Errorf(reason.Unauthenticated, "the client certificate does not verify: %w", err)
	}
	return a.DeviceID(chain[0])
}

// DeviceID returns the device's ULID from the only name of a certificate. It does not verify
// the certificate.
func (a *Authority) DeviceID(c *x509.Certificate) (string, error) {
	if len(c.URIs) != 1 || len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) > 0 {
		return "", reason.Errorf(reason.Unauthenticated, "the client certificate does not have exactly one URI name")
	}
	id, ok := deviceName(c.URIs[0], a.root.domain)
	if !ok {
		return "", reason.Errorf(reason.Unauthenticated, "the client certificate is for %s, not for a device of %s", c.URIs[0], a.root.domain)
	}
	return id, nil
}

func deviceName(u *url.URL, domain string) (string, bool) {
	id, ok := strings.CutPrefix(u.Path, devicePath)
	if !ok || u.String() != (&url.URL{Scheme: "spiffe", Host: domain, Path: devicePath + id}).String() {
		return "", false
	}
	parsed, err := ulid.ParseStrict(id)
	return id, err == nil && parsed.String() == id
}

// ServerTLS returns the TLS configuration of the gateway's listeners: TLS 1.3, a certificate
// for hosts that renews itself, and optional client certificates, which are verified. Every
// handshake with a client certificate calls allow with its chain; an error ends the handshake.
// Session resumption is disabled, so that a revoked device cannot reconnect with an old ticket.
func (a *Authority) ServerTLS(hosts []string, allow func(chain []*x509.Certificate) error) (*tls.Config, error) {
	if allow == nil {
		return nil, errors.New("making server TLS settings: the check of client certificates is missing")
	}
	s := &serverCertificate{authority: a, hosts: hosts}
	if _, err := s.get(nil); err != nil {
		return nil, fmt.Errorf("issuing the server certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.root.cert)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         s.get,
		ClientAuth:             tls.VerifyClientCertIfGiven,
		ClientCAs:              roots,
		SessionTicketsDisabled: true,
		Time:                   a.root.now,
		NextProtos:             []string{"h2", "http/1.1"},
		// The response to the first request of a client is sent in one write instead of one write
		// per packet.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			if _, err := a.VerifyDevice(cs.PeerCertificates); err != nil {
				return err
			}
			return allow(cs.PeerCertificates)
		},
	}, nil
}

// RenewalTLS is ServerTLS that also accepts a device with an expired certificate, if
// VerifyExpired accepts it and expired returns nil for its chain. A server that uses it MUST
// verify the certificate of each request again: the handshake alone does not prove current
// validity.
func (a *Authority) RenewalTLS(hosts []string, allow, expired func(chain []*x509.Certificate) error) (*tls.Config, error) {
	cfg, err := a.ServerTLS(hosts, allow)
	if err != nil {
		return nil, err
	}
	if expired == nil {
		return nil, errors.New("making server TLS settings: the check of expired client certificates is missing")
	}
	// crypto/tls refuses an expired certificate before any callback. With its check disabled,
	// VerifyConnection verifies the certificate; the handshake still proves possession of the key.
	strict := cfg.VerifyConnection
	cfg.ClientAuth = tls.RequestClientCert
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		if _, err := a.VerifyExpired(cs.PeerCertificates); err == nil {
			return expired(cs.PeerCertificates)
		}
		return strict(cs)
	}
	return cfg, nil
}

// serverCertificate renews the certificate in a handshake if it is too old.
type serverCertificate struct {
	authority *Authority
	hosts     []string

	mu   sync.Mutex
	cert *tls.Certificate
}

func (s *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.authority.root.now()
	if s.cert != nil && now.Before(renewAt(s.cert.Leaf)) {
		return s.cert, nil
	}
	next, err := s.authority.IssueServer(s.hosts)
	if err == nil {
		s.cert = next
		return next, nil
	}
	if s.cert != nil && now.Before(s.cert.Leaf.NotAfter) {
		// With a full disk, operators must still be able to connect, because they have to free space.
		return s.cert, nil
	}
	return nil, err
}

// ClientTLS returns the TLS configuration of a client that trusts only the given root. get
// returns the client's certificate at each handshake. It is nil for a client without a
// certificate.
func ClientTLS(root *x509.Certificate, serverName string, get func() (*tls.Certificate, error)) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(root)
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: serverName, NextProtos: []string{"h2", "http/1.1"}}
	if get != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return get() }
	}
	return c
}
