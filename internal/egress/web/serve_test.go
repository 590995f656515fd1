package web

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	host := w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Palyra-Reason", "forged")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "got %s", body)
	}))
	c := w.serve()
	in := bufio.NewReader(c)
	res, body := say(t, c, in, "POST /a%2Fb//c;d?x=1;y=%zz HTTP/1.1\r\nHost: EXAMPLE.org.\r\nContent-Length: 3\r\nProxy-Authorization: x\r\n"+
		"Proxy-Foo: x\r\nConnection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 1\r\nX-Forwarded-For: 192.0.2.1\r\nUser-Agent: t\r\n\r\nabc", "POST")
	if res.StatusCode != http.StatusCreated || body != "got abc" || res.Header.Get("X-Hop") != "" || res.Header.Get(reasonHeader) != "" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
	if got, want := host.requests(), []string{"POST example.org /a%2Fb//c;d?x=1;y=%zz"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the host saw %q, want %q", got, want)
	}
	want := http.Header{"Content-Length": {"3"}, "X-Forwarded-For": {"192.0.2.1"}, "User-Agent": {"t"}}
	if got := host.header(0); !reflect.DeepEqual(got, want) {
		t.Errorf("headers %v, want %v", got, want)
	}
	res, body = say(t, c, in, "HEAD / HTTP/1.1\r\nHost: example.org:80\r\n\r\n", "HEAD")
	if res.StatusCode != http.StatusCreated || body != "" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	if got := host.header(1); len(got) != 0 {
		t.Errorf("the gateway adds headers: %v", got)
	}
	if got := w.refusals(); len(got) != 0 {
		t.Errorf("refused %q", got)
	}
	list, _ := w.log.List()
	if len(list) != 1 || list[0].Requests != 2 {
		t.Errorf("the record is %+v, want one connection with 2 requests", list)
	}
}

// refusedAlone are requests that are refused on their own, on a connection to example.org:80.
var refusedAlone = []struct {
	name, text, why string
}{
	{"other host", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", egress.ReasonHostMismatch},
	{"other port", "GET / HTTP/1.1\r\nHost: example.org:8080\r\n\r\n", egress.ReasonHostMismatch},
	{"no host", "GET / HTTP/1.1\r\n\r\n", egress.ReasonBadHTTP},
	{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", egress.ReasonHostMismatch},
	{"empty port", "GET / HTTP/1.1\r\nHost: example.org:\r\n\r\n", egress.ReasonHostMismatch},
	{"two hosts", "GET / HTTP/1.1\r\nHost: example.org\r\nHost: evil.example\r\n\r\n", egress.ReasonBadHTTP},
	{"same host twice", "GET / HTTP/1.1\r\nHost: example.org\r\nhost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"user in host", "GET / HTTP/1.1\r\nHost: example.org@evil.example\r\n\r\n", egress.ReasonBadHTTP},
	{"host in brackets", "GET / HTTP/1.1\r\nHost: [example.org]\r\n\r\n", egress.ReasonHostMismatch},
	{"host list", "GET / HTTP/1.1\r\nHost: example.org, evil.example\r\n\r\n", egress.ReasonBadHTTP},
	{"escaped host", "GET / HTTP/1.1\r\nHost: example%2eorg\r\n\r\n", egress.ReasonHostMismatch},
	{"absolute, other host", "GET http://evil.example/ HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonHostMismatch},
	{"absolute, other Host", "GET http://example.org/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", egress.ReasonHostMismatch},
	{"absolute, https", "GET https://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"absolute, user", "GET http://a:b@example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"opaque", "GET http:example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"fragment", "GET /a#b HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonPath},
	{"trace", "TRACE / HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonMethod},
	{"connect", "CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n\r\n", egress.ReasonMethod},
	{"bare LF", "GET / HTTP/1.1\nHost: example.org\n\n", egress.ReasonBadHTTP},
	{"one bare LF", "GET / HTTP/1.1\r\nHost: example.org\r\nA: b\nC: d\r\n\r\n", egress.ReasonBadHTTP},
	{"bare CR", "GET / HTTP/1.1\r\nHost: example.org\r\nA: b\rC: d\r\n\r\n", egress.ReasonBadHTTP},
	{"folded line", "GET / HTTP/1.1\r\nHost: example.org\r\nA: b\r\n c\r\n\r\n", egress.ReasonBadHTTP},
	{"folded host", "GET / HTTP/1.1\r\nHost: example.org\r\n\tevil.example\r\n\r\n", egress.ReasonBadHTTP},
	{"space before colon", "GET / HTTP/1.1\r\nHost: example.org\r\nA : b\r\n\r\n", egress.ReasonBadHTTP},
	{"NUL", "GET / HTTP/1.1\r\nHost: example.org\r\nA: \x00\r\n\r\n", egress.ReasonBadHTTP},
	{"length and chunks", "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"chunks and length", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"two lengths", "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", egress.ReasonBadHTTP},
	{"signed length", "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: +4\r\n\r\nabcd", egress.ReasonBadHTTP},
	{"other coding", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"coding twice", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"disguised coding", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"chunks in 1.0", "POST / HTTP/1.0\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", egress.ReasonBadHTTP},
	{"version 3", "GET / HTTP/3.0\r\nHost: example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"no HTTP", "EHLO example.org\r\n\r\n", egress.ReasonBadHTTP},
	{"other expectation", "POST / HTTP/1.1\r\nHost: example.org\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\na", egress.ReasonBadHTTP},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", egress.ReasonUpgrade},
	{"h2c twice", "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", egress.ReasonUpgrade},
	{"h2c and more", "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: tls/1.3\r\n\r\n", egress.ReasonUpgrade},
	{"another protocol", "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: h2\r\n\r\n", egress.ReasonUpgrade},
	{"two upgrades", "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", egress.ReasonUpgrade},
	{"upgrade by POST", "POST / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", egress.ReasonUpgrade},
	{"upgrade with body", "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\na", egress.ReasonUpgrade},
	{"header of 17 KiB", "GET / HTTP/1.1\r\nHost: example.org\r\nA: " + strings.Repeat("a", 17<<10) + "\r\n\r\n", egress.ReasonHeaderTooLarge},
	{"header of 1 MiB", "GET / HTTP/1.1\r\nHost: example.org\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", egress.ReasonHeaderTooLarge},
	{"long URL", "GET /" + strings.Repeat("a", 17<<10) + " HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonHeaderTooLarge},
}

func TestRequestsRefusedIndependently(t *testing.T) {
	t.Parallel()
	for _, test := range refusedAlone {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:80")
			host := w.host("example.org:80", nil)
			c := w.serve()
			in := bufio.NewReader(c)
			go io.WriteString(c, test.text) // the text may be too long to be read completely
			res, body := readResponse(t, in, "GET")
			checkRefusal(t, res, body, test.why)
			if !strings.Contains(body, "example.org:80") {
				t.Errorf("the text does not name the host: %q", body)
			}
			if !ended(in) {
				t.Error("the connection goes on")
			}
			if got, want := w.refusals(), []string{"example.org:80 " + test.why}; !reflect.DeepEqual(got, want) {
				t.Errorf("the record is %q, want %q", got, want)
			}
			if got := host.requests(); len(got) != 0 || len(w.dials()) != 0 {
				t.Errorf("the host saw %q, dials %q", got, w.dials())
			}
		})
	}
}

func checkRefusal(t *testing.T, res *http.Response, body, why string) {
	t.Helper()
	if res.StatusCode != http.StatusForbidden || res.Header.Get(reasonHeader) != why || !res.Close ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || len(body) < 20 {
		t.Errorf("%d %v %q, want a refusal for %s", res.StatusCode, res.Header, body, why)
	}
}

// TestSecondRequest sends a valid request followed by each invalid one, all at once.
func TestSecondRequest(t *testing.T) {
	t.Parallel()
	firsts := map[string]string{
		"GET":         "GET /first HTTP/1.1\r\nHost: example.org\r\n\r\n",
		"POST":        "POST /first HTTP/1.1\r\nHost: example.org\r\nContent-Length: 64\r\n\r\n" + strings.Repeat("GET / HTTP/1.1\r\n", 4),
		"POST, CRLF":  "POST /first HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\nabc\r\n",
		"large POST":  "POST /first HTTP/1.1\r\nHost: example.org\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 100_000),
		"keep-alive0": "GET /first HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	}
	for name, first := range firsts {
		for _, test := range refusedAlone {
			if len(test.text) > 4<<10 || test.name == "no HTTP" {
				continue
			}
			t.Run(name+" then "+test.name, func(t *testing.T) {
				w := newWorld(t, "example.org:80")
				host := w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
				c := w.serve()
				in := bufio.NewReader(c)
				go io.WriteString(c, first+test.text)
				if res, _ := readResponse(t, in, "GET"); res.StatusCode != http.StatusOK {
					t.Fatalf("the first request gets %d, refused %q", res.StatusCode, w.refusals())
				}
				res, body := readResponse(t, in, "GET")
				checkRefusal(t, res, body, test.why)
				if got := host.requests(); len(got) != 1 {
					t.Errorf("the host saw %q", got)
				}
			})
		}
	}
}

// TestNoMoreAfterRefusal sends a valid request directly after an invalid one.
func TestNoMoreAfterRefusal(t *testing.T) {
	t.Parallel()
	for _, test := range refusedAlone {
		w := newWorld(t, "example.org:80")
		host := w.host("example.org:80", nil)
		c := w.serve()
		in := bufio.NewReader(c)
		go io.WriteString(c, test.text+"GET /after HTTP/1.1\r\nHost: example.org\r\n\r\n")
		readResponse(t, in, "GET")
		if !ended(in) {
			t.Errorf("%s: the connection goes on", test.name)
		}
		if got := host.requests(); len(got) != 0 {
			t.Errorf("%s: the host saw %q", test.name, got)
		}
	}
}

// TestRefusalIsRead uses clients that send more than is read: their connection is closed
// without a reset.
func TestRefusalIsRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "nonsense\r\n\r\n"} {
		w := newWorld(t, "example.org:80")
		c := w.serve()
		must.Get(io.WriteString(c, text+strings.Repeat("a", 32<<10)))(t)
		in := bufio.NewReader(c)
		if res, _ := readResponse(t, in, "GET"); res.StatusCode != http.StatusForbidden || !ended(in) {
			t.Errorf("%q: %d, and then a reset", text, res.StatusCode)
		}
	}
}
