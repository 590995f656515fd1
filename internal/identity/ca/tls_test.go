package ca

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/ca/catest"
)

func serverOf(t testing.TB, a *Authority, hosts []string) *tls.Config {
	t.Helper()
	return must.Get(a.ServerTLS(hosts, anybody))(t)
}

func named(c *tls.Config, name string) *tls.Config {
	c.ServerName = name
	return c
}

func chain(t testing.TB, c *tls.Certificate) []*x509.Certificate {
	t.Helper()
	var out []*x509.Certificate
	for _, raw := range c.Certificate {
		parsed := must.Get(x509.ParseCertificate(raw))(t)
		out = append(out, parsed)
	}
	return out
}

func uri(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	server := serverOf(t, a, Loopback())
	for name, cert := range map[string]*tls.Certificate{"with": device(t, a), "without": nil} {
		state, s, cl := catest.Handshake(t, server, client(a, c.Now, cert))
		if s != nil || cl != nil || state.Version != tls.VersionTLS13 {
			t.Errorf("%s a certificate: %v, %v, version %x", name, s, cl, state.Version)
		}
	}
	old := client(a, c.Now, nil)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, s, _ := catest.Handshake(t, server, old); s == nil {
		t.Error("TLS 1.2 was accepted")
	}
	// A client of another gateway does not trust this one.
	other, oc := newAuthorityAt(t)
	if _, _, cl := catest.Handshake(t, server, client(other, oc.Now, nil)); cl == nil {
		t.Error("a client trusts a foreign server")
	}
	if _, _, cl := catest.Handshake(t, server, named(client(a, c.Now, nil), "gateway.example")); cl == nil {
		t.Error("a client accepts another server name")
	}
	if _, err := a.ServerTLS(Loopback(), nil); err == nil {
		t.Error("a server without a check of clients was made")
	}
}

// TestBadClients presents credentials that must be refused. Each has a control: the same
// handshake succeeds without the protection.
func TestBadClients(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	other, _ := newAuthorityAt(t)
	clientAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	good := "spiffe://palyra.local/device/" + deviceID
	serverCert := must.Get(a.IssueServer(Loopback()))(t)
	for name, cert := range map[string]*tls.Certificate{
		"another gateway's device": device(t, other),
		"server certificate":       serverCert,
		"common name only":         odd(t, a, func(x *x509.Certificate) { x.Subject = pkix.Name{CommonName: good} }),
		"name and common name":     odd(t, a, func(x *x509.Certificate) { x.Subject = pkix.Name{CommonName: good}; x.DNSNames = []string{"localhost"} }),
		"other trust domain":       odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri("spiffe://other.local/device/" + deviceID)} }),
		"subdomain":                odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri("spiffe://x.palyra.local/device/" + deviceID)} }),
		"notary":                   odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri("spiffe://palyra.local/notary/1")} }),
		"two names":                odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri(good), uri(good)} }),
		"query":                    odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri(good + "?x=1")} }),
		"port":                     odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri("spiffe://palyra.local:1/device/" + deviceID)} }),
		"not a ULID":               odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri("spiffe://palyra.local/device/1")} }),
		"lower-case ULID":          odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri(strings.ToLower(good))} }),
		"code signing only": odd(t, a, func(x *x509.Certificate) {
			x.URIs = []*url.URL{uri(good)}
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
		}),
		"self-signed": selfSigned(t, c, good, clientAuth),
		"ended":       odd(t, a, func(x *x509.Certificate) { x.URIs = []*url.URL{uri(good)} }),
	} {
		server := serverOf(t, a, Loopback())
		if name == "ended" {
			server.Time = func() time.Time { return c.Now().Add(LeafLife + time.Minute) }
			server.VerifyConnection = nil // the library's own check suffices to refuse it
		}
		if _, s, _ := catest.Handshake(t, server, client(a, c.Now, cert)); s == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := a.VerifyDevice(chain(t, cert)); err == nil && name != "ended" {
			t.Errorf("%s: VerifyDevice accepts it", name)
		}
		open := serverOf(t, a, Loopback())
		open.ClientAuth, open.VerifyConnection = tls.RequireAnyClientCert, nil
		if _, s, cl := catest.Handshake(t, open, client(a, c.Now, cert)); s != nil || cl != nil {
			t.Errorf("control: %s: %v, %v", name, s, cl)
		}
	}
}

func selfSigned(t *testing.T, c *clock, name string, use []x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{URIs: []*url.URL{uri(name)}, ExtKeyUsage: use, NotBefore: c.Now().Add(-time.Hour), NotAfter: c.Now().Add(time.Hour), SerialNumber: newSerial(t)}
	cert := must.Get(sign(tmpl, tmpl, key.Public(), key))(t)
	return credential([]*x509.Certificate{cert}, key)
}

func TestExpiredDevice(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	server, cert := serverOf(t, a, Loopback()), device(t, a)
	c.Add(LeafLife - time.Minute)
	if _, s, cl := catest.Handshake(t, server, client(a, c.Now, cert)); s != nil || cl != nil {
		t.Errorf("control: %v, %v", s, cl)
	}
	c.Add(2 * time.Minute)
	if _, s, _ := catest.Handshake(t, server, client(a, c.Now, cert)); s == nil {
		t.Error("an expired certificate was accepted")
	}
	_, err := a.VerifyDevice(chain(t, cert))
	reasontest.Want(t, "expired", err, reason.Unauthenticated)
}

func TestRevocationIsAskedAtEachHandshake(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	revoked := false
	server := must.Get(a.ServerTLS(Loopback(), func(chain []*x509.Certificate) error {
		if id, err := a.DeviceID(chain[0]); err != nil || id != deviceID {
			t.Errorf("asked about %q, %v", id, err)
		}
		if revoked {
			return errors.New("revoked")
		}
		return nil
	}))(t)
	cl := client(a, c.Now, device(t, a))
	cl.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if _, s, c := catest.Handshake(t, server, cl); s != nil || c != nil {
		t.Errorf("control: %v, %v", s, c)
	}
	revoked = true
	state, s, _ := catest.Handshake(t, server, cl)
	if s == nil || state.DidResume {
		t.Errorf("a revoked device came back: %v, resumed %v", s, state.DidResume)
	}
}

func TestServerCertificateRenewsItself(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	server := serverOf(t, a, Loopback())
	first := must.Get(server.GetCertificate(nil))(t)
	c.Add(LeafLife/3*2 - time.Hour)
	if same, err := server.GetCertificate(nil); err != nil || same != first {
		t.Errorf("renewed too early: %v", err)
	}
	c.Add(time.Hour)
	next, err := server.GetCertificate(nil)
	if err != nil || next == first {
		t.Fatalf("not renewed after two thirds: %v", err)
	}
	c.Add(LeafLife / 2)
	if _, s, cl := catest.Handshake(t, server, client(a, c.Now, nil)); s != nil || cl != nil {
		t.Errorf("after a day: %v, %v", s, cl)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	a, _ := newAuthorityAt(t)
	key := newKey(t)
	// Requested names and extensions are ignored; only the key of a request is used.
	greedy := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "root", Organization: []string{"Palyra"}},
		URIs:     []*url.URL{uri("spiffe://palyra.local/device/01JNA3Q0G00000000000000000"), uri("spiffe://palyra.local/notary/1")},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, EmailAddresses: []string{"a@palyra.local"},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}
	issued := must.Get(a.IssueDevice(request(t, greedy, key), deviceID))(t)
	leaf := issued.Chain[0]
	if len(leaf.URIs) != 1 || leaf.URIs[0].Path != "/device/"+deviceID || leaf.IsCA || len(leaf.Subject.Names) != 0 ||
		len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) != 0 || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("the request was heard: %v %v %v %v CA %v", leaf.URIs, leaf.DNSNames, leaf.Subject, leaf.ExtKeyUsage, leaf.IsCA)
	}
	// Control: the request contains the names.
	if r, err := x509.ParseCertificateRequest(unPEM(t, request(t, greedy, key))); err != nil || len(r.URIs) != 2 || len(r.DNSNames) != 1 {
		t.Errorf("control: %v, %v", r, err)
	}

	rsa2048 := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	p224 := must.Get(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	p384 := must.Get(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	for name, key := range map[string]any{"RSA": rsa2048, "P-224": p224} {
		_, err := a.IssueDevice(request(t, &x509.CertificateRequest{}, key), deviceID)
		reasontest.Want(t, name, err, reason.InvalidInput)
	}
	for name, key := range map[string]any{"Ed25519": ed, "P-384": p384} {
		if _, err := a.IssueDevice(request(t, &x509.CertificateRequest{}, key), deviceID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	forged := unPEM(t, request(t, &x509.CertificateRequest{}, key))
	forged[len(forged)-1] ^= 1
	for name, csr := range map[string][]byte{"forged": forged, "empty": nil, "text": []byte("csr"), "certificate": a.RootPEM()} {
		_, err := a.IssueDevice(csr, deviceID)
		reasontest.Want(t, name, err, reason.InvalidInput)
	}
	_, err = a.IssueDevice(make([]byte, maxCSR+1), deviceID)
	reasontest.Want(t, "large", err, reason.InputTooLarge)
	_, err = a.IssueDevice(request(t, &x509.CertificateRequest{}, key), "../notary/1")
	reasontest.Want(t, "device id", err, reason.InvalidInput)
}

func TestNameConstraints(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	for name, cert := range map[string]*tls.Certificate{
		"host": odd(t, a, func(x *x509.Certificate) {
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			x.DNSNames = []string{"bank.example"}
		}),
		"address": odd(t, a, func(x *x509.Certificate) {
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			x.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)}
		}),
		"control": odd(t, a, func(x *x509.Certificate) {
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			x.DNSNames = []string{"localhost"}
		}),
	} {
		roots, middle := x509.NewCertPool(), x509.NewCertPool()
		roots.AddCert(a.Root())
		middle.AddCert(a.Issuing.current.cert)
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: middle, CurrentTime: c.Now()})
		if (err == nil) != (name == "control") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConcurrentIssue(t *testing.T) {
	t.Parallel()
	c := newClock()
	a := open(t, filepath.Join(t.TempDir(), "ca"), Options{Now: c.Now})
	c.Add(IssuingLife * 3 / 4)
	csr := request(t, &x509.CertificateRequest{}, newKey(t))
	serials := make(chan string, 16)
	for range cap(serials) {
		go func() {
			issued, err := a.IssueDevice(csr, deviceID)
			must.Check(t, err)
			serials <- issued.Serial
		}()
	}
	seen := map[string]bool{}
	for range cap(serials) {
		seen[<-serials] = true
	}
	if len(seen) != cap(serials) {
		t.Errorf("%d serial numbers for %d certificates", len(seen), cap(serials))
	}
}

// An expired device certificate verifies only for its renewal, for 30 days after its end. A
// certificate that was never valid does not verify for it either.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	other, _ := newAuthorityAt(t)
	cert, foreign := device(t, a), device(t, other)
	server := must.Get(a.IssueServer(Loopback()))(t)
	verify := func(c *tls.Certificate) error {
		id, err := a.VerifyExpired(chain(t, c))
		if err == nil && id != deviceID {
			t.Errorf("verified as %q", id)
		}
		return err
	}
	left := func(end time.Time, over time.Duration) time.Duration { return end.Add(over).Sub(c.Now()) }
	end := chain(t, cert)[0].NotAfter
	for _, x := range []struct {
		over time.Duration
		good bool
	}{{-time.Hour, false}, {0, false}, {time.Second, true}, {RenewableFor, true}, {RenewableFor + time.Second, false}, {365 * 24 * time.Hour, false}} {
		c.Add(left(end, x.over))
		if err := verify(cert); (err == nil) != x.good {
			t.Errorf("%s after its end: %v", x.over, err)
		}
		if _, err := a.VerifyDevice(chain(t, cert)); (err == nil) != (x.over <= 0) {
			t.Errorf("%s after its end it counts as valid: %v", x.over, err)
		}
		for name, bad := range map[string]*tls.Certificate{"of another gateway": foreign, "of a server": server} {
			if verify(bad) == nil {
				t.Errorf("%s after its end: one %s verifies", x.over, name)
			}
		}
	}
	if _, err := a.VerifyExpired(nil); err == nil {
		t.Error("no certificate verifies")
	}
}

// Only a listener that is configured for it accepts an expired certificate, only while it can
// be renewed, and never one that the listener's own check refuses.
func TestHandshakesWithExpiredCertificates(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	cert := device(t, a)
	end := chain(t, cert)[0].NotAfter
	refused := errors.New("revoked")
	var allowed, expired error
	strict := must.Get(a.ServerTLS(Loopback(), func([]*x509.Certificate) error { return allowed }))(t)
	lenient := must.Get(a.RenewalTLS(Loopback(), func([]*x509.Certificate) error { return allowed }, func([]*x509.Certificate) error { return expired }))(t)
	shake := func(server *tls.Config) bool {
		_, s, _ := catest.Handshake(t, server, client(a, c.Now, cert))
		return s == nil
	}
	if !shake(strict) || !shake(lenient) {
		t.Error("the control: a valid certificate was refused")
	}
	allowed = refused
	if shake(lenient) {
		t.Error("a valid certificate that is refused shook hands")
	}
	c.Add(end.Add(time.Hour).Sub(c.Now()))
	if shake(strict) || !shake(lenient) {
		t.Error("an hour after the end only the lenient listener lets in")
	}
	expired = refused
	if shake(lenient) {
		t.Error("an expired certificate that is refused shook hands")
	}
	expired = nil
	c.Add(RenewableFor)
	if shake(lenient) {
		t.Error("after 30 days it shook hands")
	}
	other, _ := newAuthorityAt(t)
	foreign := device(t, other)
	if _, s, _ := catest.Handshake(t, lenient, client(a, c.Now, foreign)); s == nil {
		t.Error("another gateway's certificate shook hands")
	}
	if _, s, cl := catest.Handshake(t, lenient, client(a, c.Now, nil)); s != nil || cl != nil {
		t.Errorf("without a certificate: %v, %v", s, cl)
	}
	if _, err := a.RenewalTLS(Loopback(), func([]*x509.Certificate) error { return nil }, nil); err == nil {
		t.Error("a listener without a check was made")
	}
}
