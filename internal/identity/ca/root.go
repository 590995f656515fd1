package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"time"

	"palyra/internal/core/reason"
)

// trustRoot is the root certificate with its key, and the trust domain that it names.
type trustRoot struct {
	pair
	keys   *keyStore
	domain string
	now    func() time.Time
	// rand generates serial numbers. Issuing.mu guards it.
	rand io.Reader
}

// make creates the root in memory. Its name contains the trust domain, to distinguish the
// roots of two gateways. No check depends on the name.
func (r *trustRoot) make() error {
	key, err := r.keys.newP256()
	if err != nil {
		return err
	}
	serial, err := r.serial()
	if err != nil {
		return err
	}
	if r.domain == "" {
		if r.domain, err = ownDomain(key.Public()); err != nil {
			return err
		}
	}
	now := r.now().UTC()
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Palyra"}, CommonName: "Palyra root " + r.domain},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(RootLife),
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs:     []*url.URL{r.id("")},
	}
	cert, err := sign(t, t, key.Public(), key)
	if err != nil {
		return err
	}
	r.pair = pair{cert, key}
	return nil
}

// ownDomain returns the trust domain of a gateway without a configured one. It is unique, so that
// exports of two gateways are not confused. ".internal" is reserved for private use (ICANN, 2024).
func ownDomain(root crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(root)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(der)
	return "palyra-" + hex.EncodeToString(digest[:8]) + ".internal", nil
}

// check sets the trust domain from the root unless it is configured, and refuses another trust
// domain.
func (r *trustRoot) check() error {
	if uris := r.cert.URIs; r.domain == "" && len(uris) == 1 && lowerDomain(uris[0].Host) {
		r.domain = uris[0].Host
	}
	if len(r.cert.URIs) != 1 || r.cert.URIs[0].String() != r.id("").String() {
		return reason.Errorf(reason.ConfigInvalid, "the authority in %s does not belong to the trust domain %q", r.keys.dir, r.domain).
			WithRemedy("Set the trust domain back, or start a new gateway in an empty state directory.")
	}
	if r.now().After(r.cert.NotAfter) {
		return reason.Errorf(reason.ConfigInvalid, "the root certificate expired on %s", r.cert.NotAfter.Format(time.DateOnly)).
			WithRemedy("Start a new gateway in an empty state directory, or correct the clock.")
	}
	return nil
}

// id returns the URI of an identity of the trust domain.
func (r *trustRoot) id(path string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: r.domain, Path: path}
}

// serial returns 127 random bits, never zero (RFC 5280, 4.1.2.2).
func (r *trustRoot) serial() (*big.Int, error) {
	var b [16]byte
	for {
		if _, err := io.ReadFull(r.rand, b[:]); err != nil {
			return nil, fmt.Errorf("making a serial number: %w", err)
		}
		b[0] &= 0x7f
		if n := new(big.Int).SetBytes(b[:]); n.Sign() > 0 {
			return n, nil
		}
	}
}

func sign(t, parent *x509.Certificate, pub any, key any) (*x509.Certificate, error) {
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(spki)
	t.SubjectKeyId = sum[:20] // RFC 7093, method 1
	der, err := x509.CreateCertificate(rand.Reader, t, parent, pub, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
