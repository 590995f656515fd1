package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/identity"
)

// world is one gateway that behaves, and one machine with a credential bundle
// for it.
type world struct {
	t       *testing.T
	gateway *fakeGateway
	server  *httptest.Server
	address string
	home    string
	bundle  string
	env     map[string]string
	// now is the CLI's clock, that of golden files.
	now time.Time
	arm time.Duration
	ca  *authority
	// again, when set, is the second interrupt of a run.
	again <-chan struct{}
}

// testNow is the time of golden files.
var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const serverName = "gateway.test"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, gateway: newFakeGateway(), home: t.TempDir(), now: testNow,
		ca: newAuthority(t),
	}
	w.bundle = filepath.Join(w.home, "bundle")
	w.env = map[string]string{
		"HOME": w.home, "PALYRA_CREDENTIALS": w.bundle,
		"XDG_STATE_HOME": filepath.Join(w.home, "state"), "XDG_CONFIG_HOME": filepath.Join(w.home, "config"),
	}
	w.serve()
	life, end := context.WithCancel(context.Background())
	w.gateway.life, w.gateway.hangUp = life, w.server.CloseClientConnections
	t.Cleanup(func() { end(); w.gateway.runs.wait.Wait() })
	w.writeBundle(time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	w.gateway.root = w.ca
	return w
}

func (w *world) serve() {
	w.t.Helper()
	w.server = httptest.NewUnstartedServer(w.gateway.handler())
	w.server.EnableHTTP2 = true
	pool := x509.NewCertPool()
	pool.AddCert(w.ca.cert)
	w.server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		Certificates: []tls.Certificate{w.ca.issue(w.t, &x509.Certificate{
			DNSNames: []string{serverName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		})},
	}
	w.server.StartTLS()
	w.t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
	})
	w.address = w.server.Listener.Addr().String()
}

func (w *world) writeBundle(from, to time.Time) {
	w.t.Helper()
	cert := w.ca.issue(w.t, &x509.Certificate{
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/device/01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
		NotBefore: from, NotAfter: to, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	err = identity.WriteBundle(w.bundle, identity.Bundle{
		Root: w.ca.cert, Chain: []*x509.Certificate{leaf}, Key: cert.PrivateKey.(*ecdsa.PrivateKey),
		Address: w.address, ServerName: serverName,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// result is what a command did.
type result struct {
	code int
	out  string
	err  string
}

// run runs a command with no terminal.
func (w *world) run(args ...string) result { return w.with(Streams{}, args...) }

// with runs a command with the given streams; what they leave open is empty.
func (w *world) with(s Streams, args ...string) result {
	w.t.Helper()
	return w.within(context.Background(), s, args...)
}

func (w *world) within(ctx context.Context, s Streams, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	if s.In == nil {
		s.In = bytes.NewReader(nil)
	}
	s.Out = also(&out, s.Out)
	s.Err = also(&errs, s.Err)
	s.Getenv = func(name string) string { return w.env[name] }
	a := newApp(s)
	a.now = func() time.Time { return w.now }
	a.arm = w.arm
	a.retry = time.Millisecond
	a.interrupt = w.interrupt
	code := a.run(ctx, args)
	return result{code: code, out: out.String(), err: errs.String()}
}

// interrupt stands for the signal of a second Ctrl-C.
func (w *world) interrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.again:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func also(to io.Writer, more io.Writer) io.Writer {
	if more == nil {
		return to
	}
	return io.MultiWriter(to, more)
}

// typing is the streams of a person who types lines at a terminal without
// colours.
func typing(lines string) Streams {
	return Streams{In: bytes.NewReader([]byte(lines)), InTerminal: true, OutTerminal: true, ErrTerminal: true}
}

func (w *world) want(r result, code int) {
	w.t.Helper()
	if r.code != code {
		w.t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
}

// authority is a CA of one certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

func (c *authority) issue(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := c.sign(t, template, key.Public())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (c *authority) sign(t *testing.T, template *x509.Certificate, public any) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.KeyUsage == 0 {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, public, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// closedAddress is an address where nothing listens: the port is nobody's, and
// no listener gets it by asking for any.
const closedAddress = "127.0.0.1:1"
