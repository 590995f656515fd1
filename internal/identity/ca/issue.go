package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
)

// maxCSR is the maximum size of a certificate request: 16 KiB.
const maxCSR = 16 << 10

// Issued is an issued certificate.
type Issued struct {
	// Chain is the certificate and its issuer, without the root.
	Chain []*x509.Certificate
	// PEM is Chain in PEM, the cert.pem of a bundle.
	PEM []byte
	// Serial is the certificate's serial number in hex.
	Serial string
	// KeySHA256 is "sha256:" and the digest of the public key.
	KeySHA256           string
	NotBefore, NotAfter time.Time
}

// The paths in the URIs of identities.
const (
	devicePath  = "/device/"
	notaryPath  = "/notary/"
	journalPath = "/journal/"
)

// IssueServer creates a key and a certificate for this host's servers. It refuses hosts that are
// neither loopback nor configured.
func (a *Authority) IssueServer(hosts []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		URIs:        []*url.URL{a.root.id("/server")},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if !a.Issuing.mayServe(h) {
			return nil, reason.Errorf(reason.ConfigInvalid, "server certificates are not for host %q", h).
				WithRemedy("Add the host to the server's configured hosts.")
		}
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	issued, err := a.Issuing.issue(t, key.Public(), LeafLife)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{
		Certificate: [][]byte{issued.Chain[0].Raw, issued.Chain[1].Raw},
		PrivateKey:  key, Leaf: issued.Chain[0],
	}, nil
}

// IssueDevice certifies the key of a request (PKCS #10, PEM or DER) for the device with this ULID.
// It uses only the key of the request, and ignores the requested names and extensions. Keys are
// P-256, P-384 or Ed25519.
func (a *Authority) IssueDevice(csr []byte, deviceID string) (Issued, error) {
	return a.IssueSession(csr, deviceID, LeafLife)
}

// IssueSession is IssueDevice with the given lifetime of the certificate, which is at most
// LeafLife.
func (a *Authority) IssueSession(csr []byte, deviceID string, life time.Duration) (Issued, error) {
	if life <= 0 || life > LeafLife {
		return Issued{}, reason.Errorf(reason.InvalidInput, "a certificate is valid for at most %s, and %s was requested", LeafLife, life)
	}
	if _, err := ulid.ParseStrict(deviceID); err != nil {
		return Issued{}, reason.Errorf(reason.InvalidInput, "device id %q is not a ULID", deviceID)
	}
	pub, err := RequestKey(csr)
	if err != nil {
		return Issued{}, err
	}
	return a.issueDevice(pub, deviceID, life)
}

// ReissueDevice certifies a key for the device with this ULID without a request. Without the
// request's proof of possession, the caller MUST ensure that the key is the device's.
func (a *Authority) ReissueDevice(pub crypto.PublicKey, deviceID string) (Issued, error) {
	if err := strongKey(pub); err != nil {
		return Issued{}, err
	}
	return a.issueDevice(pub, deviceID, LeafLife)
}

func (a *Authority) issueDevice(pub crypto.PublicKey, deviceID string, life time.Duration) (Issued, error) {
	return a.Issuing.issue(&x509.Certificate{
		URIs:        []*url.URL{a.root.id(devicePath + deviceID)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, pub, life)
}

// RequestKey returns the public key of a certificate request (PKCS #10, PEM or DER). It verifies
// that the sender holds the key, and that the key is strong.
func RequestKey(csr []byte) (crypto.PublicKey, error) {
	if len(csr) > maxCSR {
		return nil, reason.Errorf(reason.InputTooLarge, "certificate request has %d bytes, the limit is %d", len(csr), maxCSR)
	}
	der := csr
	if block, _ := pem.Decode(csr); block != nil {
		if block.Type != "CERTIFICATE REQUEST" {
			return nil, reason.Errorf(reason.InvalidInput, "certificate request: PEM block is %q, want \"CERTIFICATE REQUEST\"", block.Type)
		}
		der = block.Bytes
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "certificate request: %w", err)
	}
	if err := strongKey(req.PublicKey); err != nil {
		return nil, err
	}
	if err := req.CheckSignature(); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "certificate request: its signature does not match its key: %w", err)
	}
	return req.PublicKey, nil
}

func strongKey(pub any) error {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return nil
		}
	}
	return reason.Errorf(reason.InvalidInput, "certificate request: the key is neither P-256, P-384 nor Ed25519").
		WithRemedy("Make a P-256 key.")
}
