// Package catest is a small certificate authority for tests that require certificates which the
// gateway's own authority would not issue.
package catest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// Authority is a root certificate and its key.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// New returns an authority whose certificate is valid for the given time.
func New(t testing.TB, from, to time.Time) *Authority {
	t.Helper()
	a := &Authority{Key: Key(t), Cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test root"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	a.Cert = a.Sign(t, a.Cert, a.Key.Public())
	return a
}

// Lasting returns an authority whose certificate is valid at any time that a test may use.
func Lasting(t testing.TB) *Authority {
	t.Helper()
	return New(t, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
}

// Sign issues the certificate of a template for a public key. It sets a missing serial number,
// validity or key usage.
func (a *Authority) Sign(t testing.TB, template *x509.Certificate, public any) *x509.Certificate {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = a.Cert.NotBefore, a.Cert.NotAfter
	}
	if template.KeyUsage == 0 {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.Cert, public, a.Key))(t)
	return must.Get(x509.ParseCertificate(der))(t)
}

// Issue creates a key and signs a certificate for it.
func (a *Authority) Issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := Key(t)
	cert := a.Sign(t, template, key.Public())
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Signer issues a certificate for signing, for the name of a service of a gateway. It returns
// the key and its chain.
func (a *Authority) Signer(t testing.TB, gateway, service string) (ed25519.PrivateKey, []*x509.Certificate) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	leaf := a.Sign(t, &x509.Certificate{
		BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		URIs: []*url.URL{{Scheme: "spiffe", Host: gateway, Path: service}},
	}, public)
	return private, []*x509.Certificate{leaf, a.Cert}
}

// Key returns a new key on the curve that devices use.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// Handshake returns the server's state and the errors of the server and the client.
func Handshake(t testing.TB, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		conn := tls.Server(raw, server)
		err = conn.Handshake()
		state = conn.ConnectionState()
		done <- err
	}()
	raw := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer raw.Close()
	clientErr = tls.Client(raw, client).Handshake()
	if clientErr != nil {
		raw.Close()
	}
	serverErr = <-done
	return state, serverErr, clientErr
}
