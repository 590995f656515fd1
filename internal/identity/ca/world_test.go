package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
)

const deviceID = "01JNA3Q0G0DEV1CE0000000000"

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t testing.TB, dir string, o Options) *Authority {
	t.Helper()
	a, _, err := Open(dir, o)
	must.Do(t, err)
	return a
}

func newAuthorityAt(t testing.TB) (*Authority, *clock) {
	t.Helper()
	c := newClock()
	return open(t, filepath.Join(t.TempDir(), "ca"), Options{Now: c.Now, TrustDomain: "palyra.local"}), c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func request(t testing.TB, tmpl *x509.CertificateRequest, key any) []byte {
	t.Helper()
	der := must.Get(x509.CreateCertificateRequest(rand.Reader, tmpl, key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// device returns the credential of a valid device.
func device(t testing.TB, a *Authority) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	issued := must.Get(a.IssueDevice(request(t, &x509.CertificateRequest{}, key), deviceID))(t)
	return credential(issued.Chain, key)
}

// odd returns a credential that the authority's own intermediate signed and that is invalid in
// one way.
func odd(t testing.TB, a *Authority, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(tmpl)
	issued := must.Get(a.Issuing.issue(tmpl, key.Public(), LeafLife))(t)
	return credential(issued.Chain, key)
}

func credential(chain []*x509.Certificate, key any) *tls.Certificate {
	c := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, link := range chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	return c
}

// client returns the TLS configuration of a client of a, with a credential or none.
func client(a *Authority, now func() time.Time, cert *tls.Certificate) *tls.Config {
	var get func() (*tls.Certificate, error)
	if cert != nil {
		get = func() (*tls.Certificate, error) { return cert, nil }
	}
	c := ClientTLS(a.Root(), "localhost", get)
	c.Time = now
	return c
}

func anybody([]*x509.Certificate) error { return nil }

func newSerial(t testing.TB) *big.Int {
	t.Helper()
	return must.Get(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)))(t)
}

func unPEM(t testing.TB, text []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("not PEM")
	}
	return block.Bytes
}
