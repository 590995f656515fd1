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
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"palyra/internal/core/reason"
)

// makeRoot creates the root in memory. Its name contains the trust domain, to distinguish the
// roots of two gateways. No check depends on the name.
func (a *Authority) makeRoot() error {
	key, err := a.newP256()
	if err != nil {
		return err
	}
	serial, err := a.serial()
	if err != nil {
		return err
	}
	if a.domain == "" {
		if a.domain, err = ownDomain(key.Public()); err != nil {
			return err
		}
	}
	now := a.now().UTC()
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Palyra"}, CommonName: "Palyra root " + a.domain},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(RootLife),
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs:     []*url.URL{a.id("")},
	}
	cert, err := sign(t, t, key.Public(), key)
	if err != nil {
		return err
	}
	a.root = pair{cert, key}
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

// checkRoot sets the trust domain from the root unless it is configured, and refuses another
// trust domain.
func (a *Authority) checkRoot() error {
	if uris := a.root.cert.URIs; a.domain == "" && len(uris) == 1 && lowerDomain(uris[0].Host) {
		a.domain = uris[0].Host
	}
	if len(a.root.cert.URIs) != 1 || a.root.cert.URIs[0].String() != a.id("").String() {
		return reason.Errorf(reason.ConfigInvalid, "the authority in %s does not belong to the trust domain %q", a.dir, a.domain).
			WithRemedy("Set the trust domain back, or start a new gateway in an empty state directory.")
	}
	if a.now().After(a.root.cert.NotAfter) {
		return reason.Errorf(reason.ConfigInvalid, "the root certificate expired on %s", a.root.cert.NotAfter.Format(time.DateOnly)).
			WithRemedy("Start a new gateway in an empty state directory, or correct the clock.")
	}
	return nil
}

// makeIssuing creates an issuing intermediate with a new key and writes it. Its name constraints
// (RFC 5280, 4.2.1.10) restrict it to identities of the trust domain and to the configured server
// names.
func (a *Authority) makeIssuing(dir string) error {
	key, err := a.newP256()
	if err != nil {
		return err
	}
	serial, err := a.serial()
	if err != nil {
		return err
	}
	now := a.now().UTC()
	dns, ips := a.permitted()
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Palyra"}, CommonName: "Palyra issuing " + a.domain},
		NotBefore:    now.Add(-skew), NotAfter: earlier(now.Add(IssuingLife), a.root.cert.NotAfter),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning},
		PermittedDNSDomainsCritical: true,
		PermittedURIDomains:         []string{a.domain},
		PermittedDNSDomains:         dns,
		PermittedIPRanges:           ips,
	}
	cert, err := sign(t, a.root.cert, key.Public(), a.root.key)
	if err != nil {
		return err
	}
	next := pair{cert, key}
	if err := a.writePair(filepath.Join(dir, issuingFile), next); err != nil {
		return err
	}
	a.issuing = next
	return nil
}

// permitted returns the name constraints for servers: the configured names, all IPv4 loopback
// addresses, and each configured address by itself.
func (a *Authority) permitted() (dns []string, ips []*net.IPNet) {
	ips = []*net.IPNet{{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}}
	for _, h := range a.hosts {
		ip := net.ParseIP(h)
		switch {
		case ip == nil:
			dns = append(dns, h)
		case ip.To4() != nil && ip.IsLoopback():
		case ip.To4() != nil:
			ips = append(ips, &net.IPNet{IP: ip.To4(), Mask: net.CIDRMask(32, 32)})
		default:
			ips = append(ips, &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)})
		}
	}
	return dns, ips
}

// renewIssuing replaces the intermediate if it is old, or if its permitted hosts differ from
// the configured ones. The caller holds a.mu.
func (a *Authority) renewIssuing() error {
	dns, ips := a.permitted()
	c := a.issuing.cert
	same := slices.Equal(dns, c.PermittedDNSDomains) && slices.EqualFunc(ips, c.PermittedIPRanges, func(x, y *net.IPNet) bool {
		return x.String() == y.String()
	})
	if same && a.now().Before(renewAt(c)) {
		return nil
	}
	return a.makeIssuing(a.dir)
}

// renewAt returns the time at which two thirds of a certificate's lifetime are over.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// serial returns 127 random bits, never zero (RFC 5280, 4.1.2.2).
func (a *Authority) serial() (*big.Int, error) {
	var b [16]byte
	for {
		if _, err := io.ReadFull(a.rand, b[:]); err != nil {
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
