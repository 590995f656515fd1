package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

const (
	// validity is the lifetime of certificates, and backdated the time by which they start in the
	// past, for programs whose clock is slow.
	validity  = 24 * time.Hour
	backdated = time.Hour
	// mostLeaves bounds the certificates that are kept.
	mostLeaves = 256
)

// Authority is a certificate authority for the programs of one session. Its keys never leave
// memory, and no other program trusts it. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	leafKey     *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[egress.Host]*tls.Certificate
}

// NewAuthority creates an authority with its own key.
func NewAuthority() (*Authority, error) {
	a := &Authority{leaves: map[egress.Host]*tls.Certificate{}}
	for _, key := range []**ecdsa.PrivateKey{&a.key, &a.leafKey} {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, reason.Errorf(reason.Internal, "making a key: %w", err)
		}
		*key = made
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		// An unpredictable name prevents a certificate store from being prepared in advance.
		Subject:               pkix.Name{CommonName: "Palyra session " + rand.Text()},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, reason.Errorf(reason.Internal, "making a certificate authority: %w", err)
	}
	return a, nil
}

// Bundle returns, in PEM, the authorities in system and this one.
func (a *Authority) Bundle(system []byte) []byte {
	bundle := bytes.Clone(system)
	if n := len(bundle); n > 0 && bundle[n-1] != '\n' {
		bundle = append(bundle, '\n')
	}
	return append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})...)
}

// Config returns the TLS configuration of a server that impersonates the host. A handshake with
// another server name fails.
func (a *Authority) Config(host egress.Host) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// A resumed session would bypass the check of the server name.
		SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !isNameOf(hello.ServerName, host) {
				return nil, fmt.Errorf("the name %q does not match %s", hello.ServerName, host)
			}
			return a.leaf(host)
		},
	}
}

// leaf returns the certificate of a host, for its exact name or address.
func (a *Authority) leaf(host egress.Host) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.leaves[host]; ok {
		return known, nil
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		NotBefore:             a.certificate.NotBefore,
		NotAfter:              a.certificate.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if addr, ok := host.Addr(); ok {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{host.String()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", host, err)
	}
	if len(a.leaves) >= mostLeaves {
		clear(a.leaves)
	}
	leaf := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey}
	a.leaves[host] = leaf
	return leaf, nil
}

// serial returns an unpredictable positive number of at most 20 bytes (RFC 5280 section 4.1.2.2).
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it cannot fail
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b[:])
}

// bundles are the locations of the system's trusted authorities.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, BSD
}

// SystemBundle returns the certificates that palyrad trusts, in PEM: the file named by
// SSL_CERT_FILE, as in crypto/x509, or else the machine's bundle. It returns nil if none is found:
// programs then trust the Authority only.
func SystemBundle() []byte {
	files := bundles
	if own := os.Getenv("SSL_CERT_FILE"); own != "" {
		files = []string{own}
	}
	for _, path := range files {
		if bundle, err := os.ReadFile(path); err == nil && bytes.Contains(bundle, []byte("BEGIN CERTIFICATE")) {
			return bundle
		}
	}
	return nil
}
