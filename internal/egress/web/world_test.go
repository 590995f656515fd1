package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// patience is the timeout for results that are due at once, so that a test fails instead of
// hanging.
const patience = 2 * time.Minute

// world is a client, Serve, and the hosts behind it.
type world struct {
	t     *testing.T
	front Front
	log   *egress.ConnectionLog

	mu      sync.Mutex
	hosts   map[string]string // target to the address of a test server
	refused []string          // "target word"
	dialed  []string
	budget  int
}

func newWorld(t *testing.T, target string) *world {
	w := &world{t: t, log: egress.NewConnectionLog(time.Now()), hosts: map[string]string{}, budget: 1 << 20}
	w.front = Front{
		Connect: w.connect,
		Refuse: func(t egress.Target, why string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, strings.TrimSpace(strings.TrimPrefix(t.String(), ":0")+" "+why))
		},
		Allow: func(egress.Target) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.budget--; w.budget < 0 {
				return reason.Errorf(reason.BudgetExceeded, "the requests are used up").WithField("reason", egress.ReasonBudgetRequests)
			}
			return nil
		},
		Inspect: func(egress.Target) (egress.Inspection, bool) { return egress.Inspection{}, false },
	}
	if target != "" {
		w.front.Target = targetOf(t, target)
	}
	return w
}

func targetOf(t testing.TB, s string) egress.Target {
	t.Helper()
	return must.Get(egress.ParseTarget(s))(t)
}

// connect is the Connect function of Serve; it maps targets to test servers.
func (w *world) connect(ctx context.Context, t egress.Target) (net.Conn, *egress.Entry, error) {
	w.mu.Lock()
	address, ok := w.hosts[t.String()]
	w.dialed = append(w.dialed, t.String())
	w.mu.Unlock()
	if !ok {
		return nil, nil, reason.Errorf(reason.EgressDenied, "Blocked host: %s (policy)", t).WithField("reason", egress.ReasonUnlisted)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, reason.Errorf(reason.FetchFailed, "%s could not be connected to", t).WithField("reason", egress.ReasonUnreachable)
	}
	return conn, w.log.Begin(egress.LegTransparent, t), nil
}

// inspect sets the rules of every host.
func (w *world) inspect(methods, paths []string) {
	w.front.Inspect = func(egress.Target) (egress.Inspection, bool) {
		return egress.Inspection{Methods: methods, Paths: paths}, true
	}
}

// serve runs Serve and returns the client's end. At the end of the test, it checks that Serve
// has returned.
func (w *world) serve() *net.TCPConn {
	return w.serveAs(func(c net.Conn) net.Conn { return c })
}

func (w *world) serveAs(server func(net.Conn) net.Conn) *net.TCPConn {
	client, accepted := pair(w.t)
	client.SetDeadline(time.Now().Add(patience))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(ctx, server(accepted), w.front)
	}()
	w.t.Cleanup(func() {
		client.Close()
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			w.t.Error("Serve does not come back")
		}
	})
	return client
}

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	s := must.Get(l.Accept())(t)
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// host starts a test server for a target.
func (w *world) host(target string, h http.Handler) *upstreamServer {
	w.t.Helper()
	u := &upstreamServer{handler: h}
	u.Server = httptest.NewServer(u)
	w.add(target, u.Server)
	return u
}

func (w *world) add(target string, s *httptest.Server) {
	w.t.Cleanup(s.Close)
	w.t.Cleanup(s.CloseClientConnections)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[target] = s.Listener.Addr().String()
}

// upstreamServer records the requests that reach it.
type upstreamServer struct {
	*httptest.Server
	handler http.Handler
	mu      sync.Mutex
	saw     []string // "METHOD host path"
	headers []http.Header
}

func (u *upstreamServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.saw = append(u.saw, r.Method+" "+r.Host+" "+r.RequestURI)
	u.headers = append(u.headers, r.Header.Clone())
	u.mu.Unlock()
	if u.handler != nil {
		u.handler.ServeHTTP(w, r)
		return
	}
	fmt.Fprintf(w, "%s %s", r.Method, r.RequestURI)
}

func (u *upstreamServer) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.saw)
}

func (u *upstreamServer) header(i int) http.Header {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.headers[i]
}

func (w *world) refusals() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

func (w *world) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

// say sends a text and reads one answer.
func say(t *testing.T, c net.Conn, in *bufio.Reader, text, method string) (*http.Response, string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
	return readResponse(t, in, method)
}

func readResponse(t *testing.T, in *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	for err == nil && (res.StatusCode == http.StatusEarlyHints || res.StatusCode == http.StatusContinue) {
		res, err = http.ReadResponse(in, &http.Request{Method: method})
	}
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("the answer breaks off: %v", err)
	}
	return res, string(body)
}

// ended reports whether the connection has ended.
func ended(in *bufio.Reader) bool {
	_, err := in.ReadByte()
	return err == io.EOF
}

// authorities are the authority of the session and the authority of the outside hosts.
type authorities struct {
	session, outside *Authority
}

func newAuthorities(t testing.TB) authorities {
	t.Helper()
	var made authorities
	for _, a := range []**Authority{&made.session, &made.outside} {
		one := must.Get(NewAuthority())(t)
		*a = one
	}
	return made
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Bundle(nil))
	return pool
}

// secureHost starts a TLS server with a certificate of the outside authority.
func (w *world) secureHost(a authorities, target string, h http.Handler, protocols ...string) *upstreamServer {
	w.t.Helper()
	u := &upstreamServer{handler: h}
	u.Server = httptest.NewUnstartedServer(u)
	u.Server.EnableHTTP2 = slices.Contains(protocols, "h2")
	u.Server.TLS = a.outside.Config(targetOf(w.t, target).Host)
	u.Server.TLS.NextProtos = protocols
	u.Server.StartTLS()
	w.add(target, u.Server)
	return u
}

// inspected runs Serve behind TLS and returns the client's TLS connection.
func (w *world) inspected(a authorities, protocols ...string) *tls.Conn {
	w.front.Roots = a.outside.pool()
	raw := w.serveAs(func(c net.Conn) net.Conn { return tls.Server(c, a.session.Config(w.front.Target.Host)) })
	client := tls.Client(raw, &tls.Config{RootCAs: a.session.pool(), ServerName: w.front.Target.Host.String(), NextProtos: protocols})
	must.Do(w.t, client.Handshake())
	return client
}

// over returns a transport that uses the connections of dial.
func over(t *testing.T, dial func() net.Conn) *http.Transport {
	each := func(context.Context, string, string) (net.Conn, error) { return dial(), nil }
	transport := &http.Transport{DialContext: each, DialTLSContext: each, ForceAttemptHTTP2: true, ExpectContinueTimeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
