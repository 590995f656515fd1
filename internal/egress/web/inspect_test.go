package web

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

func TestInspectedTLS(t *testing.T) {
	t.Parallel()
	for _, inside := range []string{"http/1.1", "h2"} {
		for _, outside := range []string{"http/1.1", "h2"} {
			t.Run(inside+" to "+outside, func(t *testing.T) {
				w := newWorld(t, "example.org:443")
				a := newAuthorities(t)
				host := w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					fmt.Fprintf(w, "%s %s", r.Proto, body)
				}), outside)
				client := http.Client{Transport: over(t, func() net.Conn { return w.inspected(a, inside) })}
				for range 3 {
					res := must.Get(client.Post("https://example.org/p", "text/plain", strings.NewReader("hello")))(t)
					body, _ := io.ReadAll(res.Body)
					res.Body.Close()
					proto := map[string]string{"http/1.1": "HTTP/1.1", "h2": "HTTP/2.0"}
					if res.Proto != proto[inside] || string(body) != proto[outside]+" hello" {
						t.Errorf("%s %q", res.Proto, body)
					}
				}
				if got := host.requests(); len(got) != 3 || got[0] != "POST example.org /p" || len(w.dials()) != 1 || len(w.refusals()) != 0 {
					t.Errorf("the host saw %q, dials %q, refused %q", got, w.dials(), w.refusals())
				}
				list, _ := w.log.List()
				if len(list) != 1 || list[0].Requests != 3 {
					t.Errorf("the record is %+v", list)
				}
			})
		}
	}
}

func TestInspectedHTTP1Refuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, why string }{
		{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", egress.ReasonHostMismatch},
		{"GET / HTTP/1.1\r\nHost: example.org:80\r\n\r\n", egress.ReasonHostMismatch},
		{"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
		{"GET / HTTP/1.1\nHost: example.org\n\n", egress.ReasonBadHTTP},
		{"nonsense\r\n\r\n", egress.ReasonBadHTTP},
	} {
		w := newWorld(t, "example.org:443")
		a := newAuthorities(t)
		host := w.secureHost(a, "example.org:443", nil, "http/1.1")
		c := w.inspected(a, "http/1.1")
		in := bufio.NewReader(c)
		res, body := say(t, c, in, test.text, "GET")
		checkRefusal(t, res, body, test.why)
		if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 " + test.why}) || len(host.requests()) != 0 || len(w.dials()) != 0 {
			t.Errorf("%q: the record is %q, dials %q", test.text, got, w.dials())
		}
		if !ended(in) {
			t.Errorf("%q: the connection goes on", test.text)
		}
	}
}

// TestAuthorityOfEachStream sends requests for several hosts over one HTTP/2
// connection.
func TestAuthorityOfEachStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	a := newAuthorities(t)
	host := w.secureHost(a, "example.org:443", nil, "h2")
	client := w.stream(a)
	ask := func(authority, hostHeader string) *http.Response {
		t.Helper()
		r := must.Get(http.NewRequest(http.MethodGet, "https://example.org/"+authority, nil))(t)
		r.Host = authority
		if hostHeader != "" {
			r.Header["host"] = []string{hostHeader}
		}
		res := must.Get(client.RoundTrip(r))(t)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for _, good := range []string{"example.org", "EXAMPLE.ORG", "example.org:443"} {
		if res := ask(good, ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", good, res.StatusCode)
		}
	}
	res := ask("evil.example", "")
	if res.StatusCode != http.StatusForbidden || res.Header.Get(reasonHeader) != egress.ReasonHostMismatch {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if got := len(host.requests()); got != 3 {
		t.Errorf("the host saw %q", host.requests())
	}
	if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 host_mismatch"}) {
		t.Errorf("the record is %q", got)
	}
	r := must.Get(http.NewRequest(http.MethodGet, "https://example.org/late", nil))(t)
	if late, err := client.RoundTrip(r); err == nil {
		late.Body.Close()
		t.Error("the connection takes new streams")
	}
}

// stream is one HTTP/2 connection.
func (w *world) stream(a authorities) *http.ClientConn {
	w.t.Helper()
	client := must.Get(over(w.t, func() net.Conn { return w.inspected(a, "h2") }).NewClientConn(w.t.Context(), "https", w.front.Target.String()))(w.t)
	w.t.Cleanup(func() { client.Close() })
	return client
}

func TestHTTP2Refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ask  func(r *http.Request)
		why  string
	}{
		{"other authority", func(r *http.Request) { r.Host = "evil.example" }, egress.ReasonHostMismatch},
		{"other port", func(r *http.Request) { r.Host = "example.org:8443" }, egress.ReasonHostMismatch},
		{"large header", func(r *http.Request) { r.Header.Set("A", strings.Repeat("a", 20<<10)) }, egress.ReasonHeaderTooLarge},
		{"trace", func(r *http.Request) { r.Method = http.MethodTrace }, egress.ReasonMethod},
		{"upgrade", func(r *http.Request) { r.Method = http.MethodOptions; r.URL.Path = "*" }, egress.ReasonPath},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:443")
			a := newAuthorities(t)
			host := w.secureHost(a, "example.org:443", nil, "h2")
			client := w.stream(a)
			r := must.Get(http.NewRequest(http.MethodGet, "https://example.org/", nil))(t)
			test.ask(r)
			res := must.Get(client.RoundTrip(r))(t)
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden || res.Header.Get(reasonHeader) != test.why || len(host.requests()) != 0 || len(w.dials()) != 0 {
				t.Errorf("%d %v, dials %q", res.StatusCode, res.Header, w.dials())
			}
			if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 " + test.why}) {
				t.Errorf("the record is %q", got)
			}
		})
	}
}

// TestBrokenHTTP2 sends frames that no client sends.
func TestBrokenHTTP2(t *testing.T) {
	t.Parallel()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, frame := range []string{
		"\x00\x00\x01\x06\x00\x00\x00\x00\x00a",                // a PING of one byte
		"\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82",             // HEADERS with only a method
		"\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82",             // HEADERS on a stream of the server's
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00", // a zero increment
	} {
		w := newWorld(t, "example.org:443")
		a := newAuthorities(t)
		c := w.inspected(a, "h2")
		io.WriteString(c, preface+frame)
		c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		if got := w.refusals(); len(got) != 1 || got[0] != "example.org:443 bad_http" || len(w.dials()) != 0 {
			t.Errorf("%q: the record is %q", frame, got)
		}
	}
}

// TestUpstreamIsVerified uses hosts that cannot prove their identity.
func TestUpstreamIsVerified(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		serve func(a authorities, s *tls.Config)
	}{
		{"unknown authority", func(a authorities, s *tls.Config) { *s = *a.session.Config(targetHost("example.org")) }},
		{"other name", func(a authorities, s *tls.Config) {
			leaf, _ := a.outside.leaf(targetHost("evil.example"))
			*s = tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:443")
			a := newAuthorities(t)
			host := &upstreamServer{}
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			config := new(tls.Config)
			test.serve(a, config)
			server := &http.Server{Handler: host, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
			go server.Serve(tls.NewListener(l, config))
			t.Cleanup(func() { server.Close() })
			w.hosts["example.org:443"] = l.Addr().String()
			c := w.inspected(a, "http/1.1")
			res, body := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
			if res.StatusCode != http.StatusBadGateway || res.Header.Get(reasonHeader) != egress.ReasonBadTLS || !strings.Contains(body, "certificate of example.org:443") ||
				strings.Contains(body, "127.0.0.1") {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			list, _ := w.log.List()
			if len(list) != 1 || list[0].Verdict != egress.VerdictFailed || list[0].Reason != egress.ReasonBadTLS || len(host.requests()) != 0 {
				t.Errorf("the record is %+v, the host saw %q", list, host.requests())
			}
		})
	}
}

func targetHost(s string) egress.Host {
	host, err := egress.CanonicalHost(s)
	if err != nil {
		panic(err)
	}
	return host
}

// TestServerName uses a client that requests another TLS name than the target's, or none.
func TestServerName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"evil.example", "", "sub.example.org"} {
		w := newWorld(t, "example.org:443")
		a := newAuthorities(t)
		w.front.Roots = a.outside.pool()
		raw := w.serveAs(func(c net.Conn) net.Conn { return tls.Server(c, a.session.Config(w.front.Target.Host)) })
		client := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := client.Handshake(); err == nil {
			t.Errorf("%q: the handshake succeeds", name)
		}
		io.Copy(io.Discard, raw) // until Serve has closed it
		if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 bad_tls"}) {
			t.Errorf("%q: the record is %q", name, got)
		}
	}
}

// TestServerNameIsCheckedAgain uses a TLS server that returns its certificate for any name.
func TestServerNameIsCheckedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	a := newAuthorities(t)
	host := w.secureHost(a, "example.org:443", nil, "http/1.1")
	lax := a.session.Config(w.front.Target.Host)
	lax.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.session.leaf(w.front.Target.Host) }
	w.front.Roots = a.outside.pool()
	raw := w.serveAs(func(c net.Conn) net.Conn { return tls.Server(c, lax) })
	client := tls.Client(raw, &tls.Config{ServerName: "evil.example", InsecureSkipVerify: true})
	res, body := say(t, client, bufio.NewReader(client), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
	checkRefusal(t, res, body, egress.ReasonHostMismatch)
	if len(host.requests()) != 0 {
		t.Errorf("the host saw %q", host.requests())
	}
}
