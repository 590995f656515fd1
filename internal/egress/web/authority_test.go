package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

func TestAuthority(t *testing.T) {
	t.Parallel()
	a, b := newAuthorities(t).session, newAuthorities(t).session
	ca := a.certificate
	key, isECDSA := ca.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !isECDSA || key.Curve != elliptic.P256():
		t.Error("its key is not of P-256")
	case !ca.IsCA || !ca.BasicConstraintsValid || ca.MaxPathLen != 0 || !ca.MaxPathLenZero:
		t.Errorf("CA %v, path length %d", ca.IsCA, ca.MaxPathLen)
	case ca.KeyUsage != x509.KeyUsageCertSign || len(ca.SubjectKeyId) == 0:
		t.Errorf("usage %v", ca.KeyUsage)
	case time.Until(ca.NotAfter) > 25*time.Hour || time.Since(ca.NotBefore) < 30*time.Minute:
		t.Errorf("valid from %v to %v", ca.NotBefore, ca.NotAfter)
	case ca.Subject.String() == b.certificate.Subject.String() || ca.SerialNumber.Cmp(b.certificate.SerialNumber) == 0:
		t.Error("two authorities have one name")
	case a.key.Equal(b.key) || a.leafKey.Equal(a.key):
		t.Error("keys are shared")
	}
}

// TestLeaves checks certificates against the requirements of a client that has only the bundle.
func TestLeaves(t *testing.T) {
	t.Parallel()
	a, other := newAuthorities(t).session, newAuthorities(t).session
	for _, name := range []string{"example.org", "a.b.example.org", "192.0.2.7", "2001:db8::1", "xn--bcher-kva.example"} {
		host := targetHost(name)
		leaf := must.Get(a.leaf(host))(t)
		cert := must.Get(x509.ParseCertificate(leaf.Certificate[0]))(t)
		options := x509.VerifyOptions{Roots: a.pool(), DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if _, err := cert.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, wrong := range []string{"evil.example", "sub." + name, "192.0.2.8", "org"} {
			options.DNSName = wrong
			if _, err := cert.Verify(options); err == nil {
				t.Errorf("the certificate of %s is good for %s", name, wrong)
			}
		}
		options.DNSName = name
		options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if _, err := cert.Verify(options); err == nil {
			t.Errorf("the certificate of %s is good for a client", name)
		}
		options.KeyUsages = nil
		options.Roots = other.pool()
		if _, err := cert.Verify(options); err == nil {
			t.Errorf("another session believes the certificate of %s", name)
		}
		if cert.IsCA || len(cert.DNSNames)+len(cert.IPAddresses) != 1 || cert.KeyUsage != x509.KeyUsageDigitalSignature ||
			!bytes.Equal(cert.AuthorityKeyId, a.certificate.SubjectKeyId) {
			t.Errorf("%s: %v %v, usage %v", name, cert.DNSNames, cert.IPAddresses, cert.KeyUsage)
		}
	}
}

func TestLeavesAreKept(t *testing.T) {
	t.Parallel()
	a := newAuthorities(t).session
	first := must.Get(a.leaf(targetHost("example.org")))(t)
	if again, _ := a.leaf(targetHost("example.org")); again != first {
		t.Error("a certificate is made twice")
	}
	for i := range 2 * mostLeaves {
		must.Get(a.leaf(targetHost(fmt.Sprintf("h%d.example", i))))(t)
		if len(a.leaves) > mostLeaves {
			t.Fatalf("%d certificates are kept", len(a.leaves))
		}
	}
}

func TestConfigByName(t *testing.T) {
	t.Parallel()
	a := newAuthorities(t).session
	for _, test := range []struct {
		host, asked string
		fine        bool
	}{
		{"example.org", "example.org", true}, {"example.org", "EXAMPLE.org", true}, {"example.org", "", false},
		{"example.org", "evil.example", false}, {"192.0.2.7", "", true}, {"192.0.2.7", "example.org", false},
	} {
		host, err := egress.CanonicalHost(test.host)
		must.Do(t, err)
		config := a.Config(host)
		_, err = config.GetCertificate(&tls.ClientHelloInfo{ServerName: test.asked})
		if (err == nil) != test.fine {
			t.Errorf("%s asked for %q: %v", test.host, test.asked, err)
		}
	}
}

// TestAddressTarget uses TLS to an address, without a name.
func TestAddressTarget(t *testing.T) {
	t.Parallel()
	a := newAuthorities(t)
	client, server := net.Pipe()
	defer client.Close()
	go func() { _ = tls.Server(server, a.session.Config(targetHost("192.0.2.7"))).Handshake() }()
	must.Check(t, tls.Client(client, &tls.Config{ServerName: "192.0.2.7", RootCAs: a.session.pool()}).Handshake())
}

func TestBundle(t *testing.T) {
	t.Parallel()
	a, other := newAuthorities(t).session, newAuthorities(t).session
	system := bytes.TrimSuffix(other.Bundle(nil), []byte("\n"))
	was := bytes.Clone(system)
	bundle := a.Bundle(system)
	if !bytes.HasPrefix(bundle, append(was, '\n')) || !bytes.Equal(was, system) {
		t.Error("the system's part is not what it was")
	}
	var found [][]byte
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			t.Errorf("the bundle holds a %s", block.Type)
		}
		found = append(found, block.Bytes)
	}
	if len(found) != 2 || !bytes.Equal(found[0], other.certificate.Raw) || !bytes.Equal(found[1], a.certificate.Raw) {
		t.Errorf("the bundle has %d certificates", len(found))
	}
}

// Not parallel: it sets SSL_CERT_FILE of the process.
func TestSystemBundle(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", filepath.Join(t.TempDir(), "own.pem"))
	if b := SystemBundle(); b != nil {
		t.Errorf("%d bytes of a file that is not there", len(b))
	}
	own := []byte("-----BEGIN CERTIFICATE-----\n")
	must.Do(t, os.WriteFile(os.Getenv("SSL_CERT_FILE"), own, 0o600))
	if b := SystemBundle(); !bytes.Equal(b, own) {
		t.Errorf("the bundle is %q", b)
	}
	t.Setenv("SSL_CERT_FILE", "")
	if b := SystemBundle(); b != nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
		t.Error("what the system trusts is not PEM")
	}
}
