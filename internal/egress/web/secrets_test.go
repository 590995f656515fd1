package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

const (
	value       = "s3cr3t-value-of-the-api"
	placeholder = "palyra-sec-run1-api"
)

// source is a store with one secret.
type source struct{}

func (source) Secret(context.Context, string) ([]byte, error) { return []byte(value), nil }

func (w *world) secrets() {
	rule := must.Get(egress.ParseRule("example.org:443"))(w.t)
	w.front.Secrets = secret.New("run1", []egress.Secret{{Name: "api", Header: "Authorization", Hosts: []egress.Rule{rule}, Source: source{}}})
	w.t.Cleanup(w.front.Secrets.Close)
}

// tells is a host that returns the received data in every part of its response.
var tells = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Authorization")
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Early", auth)
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Set("X-Echo", auth)
	w.Header().Set("Trailer", "X-Late")
	fmt.Fprintf(w, "you said %s ", auth)
	_ = http.NewResponseController(w).Flush()
	fmt.Fprint(w, auth[:len(auth)/2])
	_ = http.NewResponseController(w).Flush()
	fmt.Fprint(w, auth[len(auth)/2:])
	w.Header().Set("X-Late", auth)
})

func TestSecretIsExchanged(t *testing.T) {
	t.Parallel()
	for _, outside := range []string{"http/1.1", "h2"} {
		w := newWorld(t, "example.org:443")
		w.secrets()
		a := newAuthorities(t)
		host := w.secureHost(a, "example.org:443", tells, outside)
		c := w.inspected(a, "http/1.1")
		var all strings.Builder
		in := bufio.NewReader(io.TeeReader(c, &all))
		res, body := say(t, c, in, "GET / HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer "+placeholder+"\r\nAccept-Encoding: gzip\r\nRange: bytes=1-2\r\n\r\n", "GET")
		if res.StatusCode != http.StatusOK || !strings.Contains(body, "you said Bearer "+placeholder) {
			t.Errorf("%d %q", res.StatusCode, body)
		}
		if h := host.header(0); h.Get("Authorization") != "Bearer "+value || h.Get("Accept-Encoding") != "identity" || h.Get("Range") != "" {
			t.Errorf("the host got %v", h)
		}
		if text := all.String(); strings.Contains(text, value) || strings.Count(text, placeholder) < 5 {
			t.Errorf("the program reads %q", text)
		}
	}
}

func TestSecretIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, why string }{
		{"other header", "GET / HTTP/1.1\r\nHost: example.org\r\nX-Key: " + placeholder + "\r\n\r\n", egress.ReasonSecretMisplaced},
		{"path", "GET /" + placeholder + " HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonSecretMisplaced},
		{"query", "GET /?k=" + placeholder + " HTTP/1.1\r\nHost: example.org\r\n\r\n", egress.ReasonSecretMisplaced},
		{"body", "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 19\r\n\r\n" + placeholder, egress.ReasonSecretMisplaced},
		{"chunks", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\na\r\npalyra-sec\r\n9\r\n-run1-api\r\n0\r\n\r\n", egress.ReasonSecretMisplaced},
		{"trailer", "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\na\r\n0\r\nA: " + placeholder + "\r\n\r\n", egress.ReasonSecretMisplaced},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:443")
			w.secrets()
			a := newAuthorities(t)
			w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body)+r.RequestURI+fmt.Sprint(r.Header), "palyra-sec") {
					t.Errorf("the host got %s %v %q", r.RequestURI, r.Header, body)
				}
			}), "http/1.1")
			c := w.inspected(a, "http/1.1")
			res, body := say(t, c, bufio.NewReader(c), test.text, "GET")
			checkRefusal(t, res, body, test.why)
			if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 " + test.why}) {
				t.Errorf("the record is %q", got)
			}
		})
	}
}

// TestSecretInTheClear sends a placeholder over plain HTTP.
func TestSecretInTheClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	w.secrets()
	host := w.host("example.org:443", nil)
	c := w.serve()
	res, body := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org:443\r\nAuthorization: Bearer "+placeholder+"\r\n\r\n", "GET")
	checkRefusal(t, res, body, egress.ReasonSecretUnverified)
	if len(host.requests()) != 0 {
		t.Errorf("the host saw %q", host.requests())
	}
}

// TestMisplacedBehindTheAnswer uses a host that answers before the body has arrived. A
// placeholder in the body is still recorded.
func TestMisplacedBehindTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	w.secrets()
	a := newAuthorities(t)
	w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		fmt.Fprint(w, "early")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}), "http/1.1")
	c := w.inspected(a, "http/1.1")
	in := bufio.NewReader(c)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 20\r\n\r\na")
	must.Get(http.ReadResponse(in, nil))(t)
	io.WriteString(c, placeholder)
	// The connection may stay open for the next request, so its end is not a sign.
	must.Eventually(t, "the placeholder is on record", func() (bool, string) {
		got := w.refusals()
		return reflect.DeepEqual(got, []string{"example.org:443 secret_misplaced"}), fmt.Sprintf("the record is %q", got)
	})
}

// TestSecretOfAnotherRun uses a host that returns data of another run, before this run has used
// any secret.
func TestSecretOfAnotherRun(t *testing.T) {
	t.Parallel()
	for _, outside := range []string{"http/1.1", "h2"} {
		w := newWorld(t, "example.org:443")
		w.secrets()
		a := newAuthorities(t)
		w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Early", value)
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-Last", value)
			fmt.Fprint(w, "the last was ", value)
		}), outside)
		c := w.inspected(a, "http/1.1")
		var all strings.Builder
		_, body := say(t, c, bufio.NewReader(io.TeeReader(c, &all)), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET")
		if strings.Contains(all.String(), value) || body != "the last was "+placeholder || strings.Count(all.String(), placeholder) < 4 {
			t.Errorf("%s: the program reads %q", outside, all.String())
		}
	}
}

// TestEncodedAnswer uses a host that compresses although the request does not accept it.
func TestEncodedAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	w.secrets()
	a := newAuthorities(t)
	w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, "\x1f\x8b")
	}), "http/1.1")
	c := w.inspected(a, "http/1.1")
	res, body := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer "+placeholder+"\r\n\r\n", "GET")
	if res.StatusCode < 400 || strings.Contains(body, "\x1f\x8b") || !strings.Contains(body, "example.org:443") {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// TestSecretOverWebSocket uses a host that returns a value in a frame, and a program that sends
// a placeholder.
func TestSecretOverWebSocket(t *testing.T) {
	t.Parallel()
	for _, sends := range []string{"hello", placeholder} {
		w := newWorld(t, "example.org:443")
		w.secrets()
		a := newAuthorities(t)
		host := w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, in, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+accepted+"\r\nX-Echo: %s\r\n\r\n", r.Header.Get("Authorization"))
			_, _ = io.WriteString(conn, frame(r.Header.Get("Authorization")))
			if got, err := message(in.Reader, true); strings.Contains(got, placeholder) || err == nil && got != "hello" {
				t.Errorf("the host got %q", got)
			}
		}), "http/1.1")
		c := w.inspected(a, "http/1.1")
		io.WriteString(c, strings.Replace(wantsWebSocket, "\r\n\r\n", "\r\nAuthorization: Bearer "+placeholder+"\r\n\r\n", 1))
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Echo") != "Bearer "+placeholder {
			t.Fatalf("%v, %v", res, err)
		}
		if got, err := message(in, false); err != nil || got != "Bearer "+placeholder {
			t.Errorf("the program reads %q, %v", got, err)
		}
		if h := host.header(0); h.Get("Sec-Websocket-Extensions") != "" || h.Get("Authorization") != "Bearer "+value {
			t.Errorf("the host got %v", h)
		}
		io.WriteString(c, masked(frame(sends)))
		_, _ = io.Copy(io.Discard, in)
		want := []string(nil)
		if strings.Contains(sends, placeholder) {
			want = []string{"example.org:443 secret_misplaced"}
		}
		if refused := w.refusals(); !reflect.DeepEqual(refused, want) {
			t.Errorf("%q: the record is %q", sends, refused)
		}
	}
}
