package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// asked sends a request and returns the status and body of the answer.
func asked(t testing.TB, conn net.Conn, in *bufio.Reader, text string) (int, string) {
	t.Helper()
	must.Get(io.WriteString(conn, text))(t)
	answer := must.Get(http.ReadResponse(in, nil))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(body)
}

func TestRequestsInAbsoluteForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("a.test:80", pages)
	w.host("b.test:8080", pages)
	w.serve(grantOf(t, "a.test:80", "b.test:8080"))
	conn := w.must(net.Dial("tcp", w.http.Addr().String()))
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, c := range []struct {
		says   string
		status int
		body   string
	}{
		{"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, "GET a.test "},
		{"POST http://b.test:8080/ HTTP/1.1\r\nHost: b.test:8080\r\nContent-Length: 2\r\n\r\nhi", 200, "POST b.test:8080 hi"},
		{"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "Blocked host: evil.test:80 (policy: this tool may reach only a.test:80, b.test:8080). Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs.\n"},
	} {
		if status, body := asked(t, conn, in, c.says); status != c.status || body != c.body {
			t.Errorf("%q: %d %q", c.says, status, body)
		}
	}
	list := w.ledger()
	if len(list) != 3 || list[0].Host != "a.test" || list[1].Host != "b.test" || list[2].Reason != egress.ReasonUnlisted {
		t.Errorf("ledger: %+v", list)
	}
	for _, c := range list {
		if c.Leg != egress.LegForward {
			t.Errorf("ledger: %+v", c)
		}
	}
}

func TestPlainRequestsOfOneConnection(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		for _, target := range []string{"a.test:80", "a.test:8080"} {
			t.Run(leg+" "+target, func(t *testing.T) {
				w := newWorld(t)
				w.host(target, pages)
				w.serve(grantOf(t, target))
				conn := w.must(connect(w, target))
				defer conn.Close()
				in := bufio.NewReader(conn)
				host := strings.TrimSuffix(target, ":80")
				for range 2 {
					if status, body := asked(t, conn, in, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); status != 200 || body != "GET "+host+" " {
						t.Errorf("%d %q", status, body)
					}
				}
				if status, body := asked(t, conn, in, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"); status != 403 {
					t.Errorf("another host: %d %q", status, body)
				}
				got := w.only()
				if got.Requests != 2 || got.Reason != egress.ReasonHostMismatch || got.Verdict != egress.VerdictDenied || len(w.dialled) != 1 {
					t.Errorf("ledger: %+v, dialled %v", got, w.dialled)
				}
			})
		}
	}
}

// vault is a source of secrets.
type vault map[string]string

func (v vault) Secret(_ context.Context, name string) ([]byte, error) { return []byte(v[name]), nil }

const token = "correct-horse-battery-staple"

func (w *world) withSecret(rules ...string) {
	grant := grantOf(w.t, rules...)
	grant.Secrets = []egress.Secret{{
		Name: "token", Env: "TOKEN", Header: "Authorization", Hosts: grantOf(w.t, "api.test:443").Rules.Allow,
		Source: vault{"token": token},
	}}
	w.serve(grant)
	w.trustSession()
}

// placeholder returns the program's placeholder for the secret.
func (w *world) placeholder() string {
	w.t.Helper()
	for _, variable := range w.proxy.Env("") {
		if value, ok := strings.CutPrefix(variable, "TOKEN="); ok {
			return value
		}
	}
	w.t.Fatal("there is no placeholder")
	return ""
}

func TestASecretGoesToItsHostAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := make(chan string, 10)
	w.host("api.test:443", w.secure("api.test", func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			value := r.Header.Get("Authorization")
			seen <- value
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(value), value); err != nil {
				return
			}
		}
	}))
	heard := w.listening("other.test:7")
	w.withSecret("api.test:443", "other.test:7")
	placeholder := w.placeholder()

	conn := w.must(w.transparent("api.test:443"))
	secured := w.client(conn, "api.test")
	defer secured.Close()
	status, body := asked(t, secured, bufio.NewReader(secured), "GET / HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer "+placeholder+"\r\n\r\n")
	if got := <-seen; got != "Bearer "+token {
		t.Errorf("the host got %q", got)
	}
	if status != 200 || strings.Contains(body, token) {
		t.Errorf("the program got %d %q", status, body)
	}

	raw := w.must(w.socks5("other.test:7"))
	w.wantDisconnect(raw, []byte("USER me PASS "+placeholder+"\r\n"))
	if said := <-heard; strings.Contains(string(said), placeholder) {
		t.Errorf("the other host heard %q", said)
	}
	list := w.ledger()
	if got := list[len(list)-1]; got.Reason != egress.ReasonSecretMisplaced || got.Verdict != egress.VerdictDenied {
		t.Errorf("ledger: %+v", got)
	}
	scrubbed, err := io.ReadAll(w.proxy.Scrub(strings.NewReader("it was " + token + ".")))
	if err != nil || strings.Contains(string(scrubbed), token) {
		t.Errorf("scrubbed: %q, %v", scrubbed, err)
	}
}

func TestTrustedAuthorities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withSecret("api.test:443")
	if !strings.Contains(string(w.proxy.Bundle()), "BEGIN CERTIFICATE") {
		t.Error("the bundle is empty")
	}
	env := w.proxy.Env("/etc/bundle.pem")
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "npm_config_cafile"} {
		if !slices.Contains(env, name+"=/etc/bundle.pem") {
			t.Errorf("%s is not set", name)
		}
	}
	for _, variable := range append(env, w.proxy.Env("")...) {
		if strings.Contains(strings.ToLower(variable), "proxy") || strings.HasSuffix(variable, "=") {
			t.Errorf("variable %s", variable)
		}
	}
	if got := w.proxy.Env(""); len(got) != 1 {
		t.Errorf("without a bundle: %v", got)
	}
}

func TestBudgetsOfRequests(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		set   func(*egress.Budget)
		serve func(net.Conn)
		says  string
	}{
		egress.ReasonBudgetBytesOut: {
			func(b *egress.Budget) { b.BytesOut = 10_000 }, pages,
			"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("x", 20_000),
		},
		egress.ReasonBudgetBytesIn: {
			func(b *egress.Budget) { b.BytesIn = 10_000 },
			func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, 10))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20_000))
				_, _ = io.Copy(io.Discard, conn)
			},
			"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:80", c.serve)
			grant := grantOf(t, "api.test:80")
			c.set(&grant.Budget)
			w.serve(grant)
			conn := w.must(w.transparent("api.test:80"))
			defer conn.Close()
			go func() { _, _ = io.WriteString(conn, c.says) }()
			got, _ := io.ReadAll(conn)
			if strings.Contains(string(got), strings.Repeat("x", 20_000)) {
				t.Error("the whole answer came")
			}
			if l := w.only(); l.Reason != reason {
				t.Errorf("ledger: %+v", l)
			}
		})
	}
}

func TestInspectedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:443", w.secure("api.test", pages))
	grant := grantOf(t, "api.test:443")
	grant.Inspect = []egress.Inspection{{Host: grant.Rules.Allow[0], Methods: []string{"GET"}}}
	w.serve(grant)
	w.trustSession()
	for _, connect := range legs {
		conn := w.must(connect(w, "api.test:443"))
		secured := w.client(conn, "api.test")
		in := bufio.NewReader(secured)
		if status, body := asked(t, secured, in, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"); status != 200 {
			t.Errorf("GET: %d %q", status, body)
		}
		if status, body := asked(t, secured, in, "DELETE / HTTP/1.1\r\nHost: api.test\r\n\r\n"); status != 403 {
			t.Errorf("DELETE: %d %q", status, body)
		}
		secured.Close()
	}
	for _, c := range w.ledger() {
		if c.Reason != egress.ReasonMethod || c.Requests != 1 {
			t.Errorf("ledger: %+v", c)
		}
	}
}

// An inspected host receives only requests, also without TLS.
func TestInspectedInTheClear(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ says, reason string }{
		"a method": {"DELETE / HTTP/1.1\r\nHost: api.test:8080\r\n\r\n", egress.ReasonMethod},
		"no HTTP":  {"hello there\r\n\r\n", egress.ReasonBadHTTP},
	} {
		for leg, connect := range legs {
			t.Run(leg+" "+name, func(t *testing.T) {
				w := newWorld(t)
				heard := w.listening("api.test:8080")
				grant := grantOf(t, "api.test:8080")
				grant.Inspect = []egress.Inspection{{Host: grant.Rules.Allow[0], Methods: []string{"GET"}}}
				w.serve(grant)
				conn := w.must(connect(w, "api.test:8080"))
				w.wantDisconnect(conn, []byte(c.says))
				if got := w.only(); got.Reason != c.reason || got.Verdict != egress.VerdictDenied || got.BytesOut != 0 {
					t.Errorf("ledger: %+v", got)
				}
				w.nothing(heard)
			})
		}
	}
}
