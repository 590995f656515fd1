package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// TestForwardLeg sends requests for several hosts over one connection to the
// proxy.
func TestForwardLeg(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	a := w.host("a.example:80", nil)
	b := w.host("[2001:db8::1]:8080", nil)
	c := w.serve()
	in := bufio.NewReader(c)
	for range 2 {
		for _, url := range []string{"http://a.example/x?y", "http://A.EXAMPLE:80", "http://[2001:DB8::1]:8080/z"} {
			res, _ := say(t, c, in, "GET "+url+" HTTP/1.1\r\nHost: "+strings.SplitN(url[len("http://"):], "/", 2)[0]+"\r\nProxy-Connection: keep-alive\r\n\r\n", "GET")
			if res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d", url, res.StatusCode)
			}
		}
	}
	twice := func(list ...string) []string { return append(list, list...) }
	if got, want := a.requests(), twice("GET a.example /x?y", "GET a.example /"); !reflect.DeepEqual(got, want) {
		t.Errorf("a saw %q", got)
	}
	if got, want := b.requests(), twice("GET [2001:db8::1]:8080 /z"); !reflect.DeepEqual(got, want) {
		t.Errorf("b saw %q", got)
	}
	if got := w.dials(); len(got) != 2 {
		t.Errorf("dialled %q, want each host once", got)
	}
	if h := a.header(0); len(h) != 0 {
		t.Errorf("headers %v", h)
	}
	list, _ := w.log.List()
	if len(list) != 2 || list[0].Requests != 4 || list[1].Requests != 2 {
		t.Errorf("the record is %+v", list)
	}
}

func TestForwardLegRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, record, why string }{
		{"path only", "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"https", "GET https://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"ftp", "GET ftp://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"other Host", "GET http://example.org/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "example.org:80 host_mismatch", egress.ReasonHostMismatch},
		{"Host of other port", "GET http://example.org/ HTTP/1.1\r\nHost: example.org:8080\r\n\r\n", "example.org:80 host_mismatch", egress.ReasonHostMismatch},
		{"user", "GET http://example.org@evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "evil.example:80 bad_http", egress.ReasonBadHTTP},
		{"short address", "GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"number", "GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"zone", "GET http://[fe80::1%25eth0]/ HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"port 99999", "GET http://example.org:99999/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"no ASCII", "GET http://ex\u00e4mple.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"backslash", "GET http://example.org\\@evil.example/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
		{"late CONNECT", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", "method", egress.ReasonMethod},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: example.org\r\n\r\n", "bad_http", egress.ReasonBadHTTP},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "")
			w.host("example.org:80", nil)
			c := w.serve()
			in := bufio.NewReader(c)
			res, body := say(t, c, in, test.text, "GET")
			checkRefusal(t, res, body, test.why)
			if got := w.refusals(); !reflect.DeepEqual(got, []string{test.record}) || len(w.dials()) != 0 {
				t.Errorf("the record is %q, dials %q", got, w.dials())
			}
		})
	}
}

// TestUnlisted: a host that Connect refuses receives nothing, and the client receives the
// reason.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.serve()
	in := bufio.NewReader(c)
	res, body := say(t, c, in, "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET")
	checkRefusal(t, res, body, egress.ReasonUnlisted)
	if !strings.Contains(body, "Blocked host: evil.example:80 ") || len(w.refusals()) != 0 {
		t.Errorf("%q, recorded twice: %q", body, w.refusals())
	}
}

func TestRedirectsAreTheClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	host := w.host("example.org:80", http.RedirectHandler("http://evil.example/", http.StatusFound))
	c := w.serve()
	res, _ := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
	if res.StatusCode != http.StatusFound || res.Header.Get("Location") != "http://evil.example/" || len(w.dials()) != 1 || len(host.requests()) != 1 {
		t.Errorf("%d %v, dials %q", res.StatusCode, res.Header, w.dials())
	}
}

func TestRequestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	w.budget = 2
	host := w.host("example.org:80", nil)
	c := w.serve()
	in := bufio.NewReader(c)
	for range 2 {
		if res, _ := say(t, c, in, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET"); res.StatusCode != http.StatusOK {
			t.Fatal(res.StatusCode)
		}
	}
	res, body := say(t, c, in, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
	checkRefusal(t, res, body, egress.ReasonBudgetRequests)
	if len(host.requests()) != 2 {
		t.Errorf("the host saw %q", host.requests())
	}
}

// TestUpstreamFails: the client receives the failure without any detail of the gateway's
// network.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	leaky := "dial tcp 10.20.30.40:80: lookup on 10.0.0.53:53"
	tests := []struct {
		name   string
		answer string // the host's answer, "" for an error of Connect
		err    error
		status int
		why    string
	}{
		{name: "unexplained", err: errors.New(leaky), status: http.StatusBadGateway},
		{name: "unexplained failure", err: reason.Errorf(reason.FetchFailed, "%s", leaky), status: http.StatusBadGateway},
		{name: "explained", err: reason.Errorf(reason.FetchFailed, "example.org:80 has no address").WithField("reason", egress.ReasonUnresolved), status: http.StatusBadGateway, why: "unresolved"},
		{name: "no HTTP", answer: "SSH-2.0-OpenSSH_9.9\r\n", status: http.StatusBadGateway},
		{name: "nothing", answer: " ", status: http.StatusBadGateway},
		{name: "header without end", answer: "HTTP/1.1 200 OK\r\nA: b\r\n", status: http.StatusBadGateway},
		{name: "huge header", answer: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", status: http.StatusBadGateway},
		{name: "two lengths", answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", status: http.StatusBadGateway},
		{name: "switch unasked", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", status: http.StatusBadGateway, why: "upgrade"},
		{name: "switch to an empty key", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: Kfh9QIsMVZcl6xEPYxPHzW8SZ8w=\r\n\r\n",
			status: http.StatusBadGateway, why: "upgrade"},
		{name: "switch to nothing", answer: "HTTP/1.1 101 Switching Protocols\r\n\r\n", status: http.StatusBadGateway, why: "upgrade"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:80")
			w.front.Connect = func(context.Context, egress.Target) (net.Conn, *egress.Entry, error) {
				if test.err != nil {
					return nil, nil, test.err
				}
				client, server := pair(t)
				t.Cleanup(func() { server.Close() })
				go func() {
					_, _ = http.ReadRequest(bufio.NewReader(server))
					_, _ = io.WriteString(server, test.answer)
					_ = server.CloseWrite()
				}()
				return client, w.log.Begin(egress.LegTransparent, w.front.Target), nil
			}
			c := w.serve()
			res, body := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
			if res.StatusCode != test.status || res.Header.Get(reasonHeader) != test.why || !strings.Contains(body, "example.org:80") {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "10.0.0.53") || strings.Contains(body, "10.20") {
				t.Errorf("the text tells too much: %q", body)
			}
		})
	}
}

// TestNoRepeats: a request that may have had an effect is not repeated when the connection
// breaks.
func TestNoRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	var mu sync.Mutex
	posts := 0
	host := w.host("example.org:80", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			mu.Lock()
			posts++
			mu.Unlock()
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		fmt.Fprint(rw, "ok")
	}))
	c := w.serve()
	in := bufio.NewReader(c)
	if res, _ := say(t, c, in, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET"); res.StatusCode != http.StatusOK {
		t.Fatal(res.StatusCode)
	}
	res, _ := say(t, c, in, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\na", "POST")
	mu.Lock()
	defer mu.Unlock()
	if res.StatusCode != http.StatusBadGateway || posts != 1 {
		t.Errorf("%d after %d POST requests; the host saw %q", res.StatusCode, posts, host.requests())
	}
}

func TestRefusalOf(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		reason.Errorf(reason.EgressDenied, "a:1 is not allowed").WithField("reason", egress.ReasonUnlisted),
		errors.New("dial tcp 10.0.0.1:1: refused"),
	} {
		res := must.Get(http.ReadResponse(bufio.NewReader(strings.NewReader(string(RefusalOf(err)))), nil))(t)
		body, _ := io.ReadAll(res.Body)
		var known *reason.Error
		isKnown := errors.As(err, &known)
		if isKnown != (res.StatusCode == http.StatusForbidden) || isKnown != (res.Header.Get(reasonHeader) == egress.ReasonUnlisted) || strings.Contains(string(body), "10.0") {
			t.Errorf("%v: %d %v %q", err, res.StatusCode, res.Header, body)
		}
	}
}
