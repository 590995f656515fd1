package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/surface/console"
)

// browser is an http.RoundTripper of a browser that is logged in to the console of a daemon.
type browser struct {
	origin, secret string
	cookie         string
	transport      *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b *browser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Origin", b.origin)
	r.Header.Set(console.SecretHeader, b.secret)
	if b.cookie != "" {
		r.Header.Set("Cookie", b.cookie)
	}
	return b.transport.RoundTrip(r)
}

func (b *browser) whoami(t *testing.T) (*palyrav1.WhoamiResponse, error) {
	return palyrav1connect.NewConsoleServiceClient(&http.Client{Transport: b}, b.origin).Whoami(t.Context(), &palyrav1.WhoamiRequest{})
}

// browse logs the local operator in to the console, with a browser that trusts roots.
func (d *running) browse(at string, roots *x509.CertPool) *browser {
	d.t.Helper()
	return d.browseAs(d.client(), at, roots)
}

// browseAs logs a client's member in to the console, with a browser that trusts roots.
func (d *running) browseAs(c *http.Client, at string, roots *x509.CertPool) *browser {
	d.t.Helper()
	b := &browser{origin: d.Console, transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	}}
	d.t.Cleanup(b.transport.CloseIdleConnections)
	made := must.Get(palyrav1connect.NewConsoleServiceClient(c, d.url()).CreateConsoleLogin(d.t.Context(), &palyrav1.CreateConsoleLoginRequest{}))(d.t)
	_, token, _ := strings.Cut(made.GetUrl(), "#token=")
	r := must.Get(http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.Console+"/console/v1/login", strings.NewReader(`{"token":"`+token+`"}`)))(d.t)
	res := must.Get((&http.Client{Transport: b}).Do(r))(d.t)
	defer func() { _ = res.Body.Close() }()
	var answer struct{ Secret string }
	must.Do(d.t, json.NewDecoder(res.Body).Decode(&answer))
	if res.StatusCode != http.StatusOK {
		d.t.Fatalf("login: %d", res.StatusCode)
	}
	b.secret = answer.Secret
	b.cookie, _, _ = strings.Cut(res.Header.Get("Set-Cookie"), ";")
	return b
}

// at returns the address on which the console listens.
func (d *running) at() string {
	u := must.Get(url.Parse(d.Console))(d.t)
	return "127.0.0.1:" + u.Port()
}

// Over plain HTTP, console sessions end with the process, although the origin stays the same.
// Another process that takes the port in between gets no secret that is valid later.
func TestConsoleSessionsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	b := d.browse(d.at(), nil)
	if who := must.Get(b.whoami(t))(t); who.GetPrincipal() != "user:local" || who.GetSurface() != "console" { // control
		t.Fatalf("whoami %v", who)
	}
	d.cfg.Listen.Console = d.at()
	d.end()
	d.client().CloseIdleConnections()
	again := start(t, d.cfg)
	if again.Console != d.Console {
		t.Fatalf("the origin was %s, and is %s", d.Console, again.Console)
	}
	if _, err := b.whoami(t); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("after the restart: %v", err)
	}
	must.Get(again.browse(again.at(), nil).whoami(t))(t)
}

// A device's console sessions end when the device is revoked.
func TestConsoleEndsWithItsDevice(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	block, _ := pem.Decode(must.Get(identity.Request(key))(t))
	made := must.Get(palyrav1connect.NewAccessServiceClient(d.client(), d.url()).AddMember(t.Context(), &palyrav1.AddMemberRequest{
		Name: "ada", Kind: "user", Roles: []string{"operator"}, CertificateRequest: block.Bytes, AcceptLoss: true,
	}))(t)
	cert := tls.Certificate{PrivateKey: key}
	for _, link := range must.Get(ca.ParseChain([]byte(made.GetCertificateChain())))(t) {
		cert.Certificate = append(cert.Certificate, link.Raw)
	}
	trust := must.Get(identity.ReadBundle(d.Credentials))(t).ClientTLS()
	trust.GetClientCertificate = nil
	trust.Certificates = []tls.Certificate{cert}
	ada := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
	t.Cleanup(ada.CloseIdleConnections)
	b, other := d.browseAs(ada, d.at(), nil), d.browse(d.at(), nil)
	who := must.Get(b.whoami(t))(t)
	if who.GetPrincipal() != "user:ada" {
		t.Fatalf("whoami %v", who)
	}
	must.Get(palyrav1connect.NewIdentityServiceClient(d.client(), d.url()).RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: who.GetDeviceId(), Reason: "lost", AcceptLoss: true}))(t)
	if _, err := b.whoami(t); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("after the revocation: %v", err)
	}
	must.Get(other.whoami(t))(t) // control
	sessions := must.Get(palyrav1connect.NewConsoleServiceClient(d.client(), d.url()).ListConsoleSessions(t.Context(), &palyrav1.ListConsoleSessionsRequest{}))(t)
	if len(sessions.GetSessions()) != 1 {
		t.Errorf("sessions %v", sessions)
	}
}

// Over TLS, the console's certificate is issued by the console's own CA, and never by the CA of
// devices.
func TestConsoleOverTLS(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Console.OwnCA, cfg.Console.Origin = true, "https://palyra.example.com"
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	at := listener.Addr().String()
	must.Do(t, listener.Close())
	cfg.Listen.Console = at
	d := start(t, cfg)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(must.Get(os.ReadFile(filepath.Join(statedir.ConsoleCA(cfg.StateDir), "ca.pem")))(t)) {
		t.Fatal("there is no CA")
	}
	b := d.browse(at, roots)
	must.Get(b.whoami(t))(t)
	if !strings.HasPrefix(b.cookie, "__Host-palyra=") {
		t.Errorf("cookie %q", strings.SplitN(b.cookie, "=", 2)[0])
	}
	devices := x509.NewCertPool()
	devices.AppendCertsFromPEM(must.Get(os.ReadFile(filepath.Join(d.Credentials, "ca.pem")))(t))
	conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: devices, ServerName: "palyra.example.com", MinVersion: tls.VersionTLS13})
	if err == nil {
		_ = conn.Close()
		t.Error("the certificate of the console is one of the CA of devices")
	}
}
