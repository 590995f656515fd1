package ca

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Issuing is the intermediate that signs the certificates of devices, servers, the notary and
// the journal. It renews itself before it expires.
type Issuing struct {
	keys *keyStore
	root *trustRoot
	// hosts are the names and addresses for which server certificates may be issued.
	hosts []string

	// mu guards current.
	mu      sync.Mutex
	current pair
}

// Certificate returns the certificate of the issuing intermediate.
func (s *Issuing) Certificate() *x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.cert
}

// Rotate creates a new issuing intermediate now. Key and certificate are in one file,
// which is replaced by one rename. Certificates issued by the old intermediate remain valid
// until they expire, because each is presented with its issuer.
func (s *Issuing) Rotate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.make(s.keys.dir); err != nil {
		return fmt.Errorf("rotating the issuing key: %w", err)
	}
	return nil
}

// make creates an issuing intermediate with a new key and writes it. Its name constraints
// (RFC 5280, 4.2.1.10) restrict it to identities of the trust domain and to the configured server
// names.
func (s *Issuing) make(dir string) error {
	key, err := s.keys.newP256()
	if err != nil {
		return err
	}
	serial, err := s.root.serial()
	if err != nil {
		return err
	}
	now := s.root.now().UTC()
	dns, ips := s.permitted()
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Palyra"}, CommonName: "Palyra issuing " + s.root.domain},
		NotBefore:    now.Add(-skew), NotAfter: earlier(now.Add(IssuingLife), s.root.cert.NotAfter),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning},
		PermittedDNSDomainsCritical: true,
		PermittedURIDomains:         []string{s.root.domain},
		PermittedDNSDomains:         dns,
		PermittedIPRanges:           ips,
	}
	cert, err := sign(t, s.root.cert, key.Public(), s.root.key)
	if err != nil {
		return err
	}
	next := pair{cert, key}
	if err := s.keys.writePair(filepath.Join(dir, issuingFile), next); err != nil {
		return err
	}
	s.current = next
	return nil
}

// permitted returns the name constraints for servers: the configured names, all IPv4 loopback
// addresses, and each configured address by itself.
func (s *Issuing) permitted() (dns []string, ips []*net.IPNet) {
	ips = []*net.IPNet{{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}}
	for _, h := range s.hosts {
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

// mayServe reports whether server certificates may be issued for a host.
func (s *Issuing) mayServe(host string) bool {
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(s.hosts, host)
}

// renew replaces the intermediate if it is due.
func (s *Issuing) renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewLocked()
}

// renewLocked replaces the intermediate if it is old, or if its permitted hosts differ from
// the configured ones. The caller holds mu.
func (s *Issuing) renewLocked() error {
	dns, ips := s.permitted()
	c := s.current.cert
	same := slices.Equal(dns, c.PermittedDNSDomains) && slices.EqualFunc(ips, c.PermittedIPRanges, func(x, y *net.IPNet) bool {
		return x.String() == y.String()
	})
	if same && s.root.now().Before(renewAt(c)) {
		return nil
	}
	return s.make(s.keys.dir)
}

// issue renews the intermediate when it is due and signs t with it.
func (s *Issuing) issue(t *x509.Certificate, pub any, life time.Duration) (Issued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.renewLocked(); err != nil {
		return Issued{}, err
	}
	serial, err := s.root.serial()
	if err != nil {
		return Issued{}, err
	}
	now := s.root.now().UTC()
	t.SerialNumber = serial
	t.NotBefore = later(now.Add(-skew), s.current.cert.NotBefore)
	t.NotAfter = earlier(now.Add(life), s.current.cert.NotAfter)
	t.BasicConstraintsValid = true
	cert, err := sign(t, s.current.cert, pub, s.current.key)
	if err != nil {
		return Issued{}, err
	}
	chain := []*x509.Certificate{cert, s.current.cert}
	return Issued{
		Chain: chain, PEM: chainPEM(chain), Serial: cert.SerialNumber.Text(16),
		KeySHA256: canonical.Digest(cert.RawSubjectPublicKeyInfo),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
	}, nil
}

// load reads the intermediate.
func (s *Issuing) load() (err error) {
	if s.current, err = s.keys.readPair(filepath.Join(s.keys.dir, issuingFile)); err != nil {
		return err
	}
	if err := s.current.cert.CheckSignatureFrom(s.root.cert); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "the issuing certificate is not from this root: %w", err)
	}
	return nil
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
