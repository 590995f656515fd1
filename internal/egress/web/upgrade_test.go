package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/egress"
)

const wantsWebSocket = "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"

// accepted is the value in RFC 6455 section 1.3 for the example key.
const accepted = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

// echoes switches to a protocol and sends back the received bytes.
func echoes(protocol, accept string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Accept: %s\r\n\r\n", protocol, accept)
		_, _ = io.Copy(conn, in)
	})
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "inspected"} {
		for _, leaves := range []string{"client", "gateway"} {
			t.Run(kind+", "+leaves+" leaves", func(t *testing.T) {
				target := map[string]string{"plain": "example.org:80", "inspected": "example.org:443"}[kind]
				w := newWorld(t, target)
				w.inspect([]string{"GET"}, []string{"/chat"})
				var c net.Conn
				if kind == "plain" {
					w.host(target, echoes("websocket", accepted))
					c = w.serve()
				} else {
					a := newAuthorities(t)
					w.secureHost(a, target, echoes("websocket", accepted), "h2", "http/1.1")
					c = w.inspected(a, "http/1.1")
				}
				in := bufio.NewReader(c)
				io.WriteString(c, wantsWebSocket)
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "websocket" {
					t.Fatalf("%v %v, refused %q", res, err, w.refusals())
				}
				for _, frame := range []string{"\x81\x05hello", "\x81\x05again"} {
					io.WriteString(c, frame)
					got := make([]byte, len(frame))
					if _, err := io.ReadFull(in, got); err != nil || string(got) != frame {
						t.Errorf("%q, %v", got, err)
					}
				}
				if leaves == "client" {
					c.Close() // the cleanup checks that Serve returns
				}
			})
		}
	}
}

func TestWebSocketNeedsPermission(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		methods, paths []string
		why            string
	}{
		{[]string{"POST"}, nil, egress.ReasonMethod},
		{nil, []string{"/other"}, egress.ReasonPath},
	} {
		w := newWorld(t, "example.org:80")
		w.inspect(test.methods, test.paths)
		host := w.host("example.org:80", echoes("websocket", accepted))
		c := w.serve()
		res, body := say(t, c, bufio.NewReader(c), wantsWebSocket, "GET")
		checkRefusal(t, res, body, test.why)
		if len(host.requests()) != 0 {
			t.Errorf("the host saw %q", host.requests())
		}
	}
}

// TestOtherProtocol uses hosts that switch to another protocol, or that do not prove that they
// understood the request.
func TestOtherProtocol(t *testing.T) {
	t.Parallel()
	for _, host := range []http.Handler{echoes("h2c", accepted), echoes("websocket", ""), echoes("websocket", "dGhlIHNhbXBsZSBub25jZQ==")} {
		w := newWorld(t, "example.org:80")
		w.host("example.org:80", host)
		c := w.serve()
		in := bufio.NewReader(c)
		res, _ := say(t, c, in, wantsWebSocket, "GET")
		if res.StatusCode != http.StatusBadGateway || res.Header.Get(reasonHeader) != egress.ReasonUpgrade || !ended(in) {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		if got := w.refusals(); len(got) != 1 || got[0] != "example.org:80 upgrade" {
			t.Errorf("the record is %q", got)
		}
	}
}

// TestHalfHandshake omits or changes each part of the handshake.
func TestHalfHandshake(t *testing.T) {
	t.Parallel()
	for _, change := range [][2]string{
		{"Connection: keep-alive, Upgrade", "Connection: keep-alive"}, {"Version: 13", "Version: 8"}, {"Sec-WebSocket-Key", "X-Key"},
		{"dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="}, {"dGhlIHNhbXBsZSBub25jZQ==", "?"}, {"GET", "POST"}, {"HTTP/1.1", "HTTP/1.0"},
		{"\r\n\r\n", "\r\nContent-Length: 1\r\n\r\na"}, {"Upgrade: WebSocket", "Upgrade: WebSocket\r\nUpgrade: h2c"}, {"Upgrade: WebSocket", "Upgrade: websocket, h2c"},
	} {
		w := newWorld(t, "example.org:80")
		w.host("example.org:80", echoes("websocket", accepted))
		c := w.serve()
		res, body := say(t, c, bufio.NewReader(c), strings.Replace(wantsWebSocket, change[0], change[1], 1), "GET")
		checkRefusal(t, res, body, egress.ReasonUpgrade)
		if len(w.dials()) != 0 {
			t.Errorf("%q: dials %q", change, w.dials())
		}
	}
}

// TestUpgradeWithoutProtocol: a connection upgrade without a protocol is not forwarded to the host.
func TestUpgradeWithoutProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	host := w.host("example.org:80", nil)
	c := w.serve()
	res, _ := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\n\r\n", "GET")
	if h := host.header(0); res.StatusCode != http.StatusOK || len(h) != 0 {
		t.Errorf("%d, the host got %v", res.StatusCode, h)
	}
}

// TestOfferOfHTTP2 uses clients that offer HTTP/2 without TLS. They get an HTTP/1.1 answer, the
// offer is not forwarded to the host, and a later HTTP/2 preface is refused.
func TestOfferOfHTTP2(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ target, offer, body string }{
		{"example.org:80", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""},
		{"example.org:80", "Connection: keep-alive, upgrade\r\nUpgrade: H2C \r\nContent-Length: 3\r\n", "abc"},
		{"example.org:80", "Upgrade: h2c\r\n", ""},
		{"example.org:443", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""},
	} {
		w := newWorld(t, test.target)
		var host *upstreamServer
		var c net.Conn
		if test.target == "example.org:80" {
			host = w.host(test.target, nil)
			c = w.serve()
		} else {
			a := newAuthorities(t)
			host = w.secureHost(a, test.target, nil, "http/1.1")
			c = w.inspected(a, "http/1.1")
		}
		in := bufio.NewReader(c)
		res, _ := say(t, c, in, "POST / HTTP/1.1\r\nHost: example.org\r\n"+test.offer+"\r\n"+test.body, "POST")
		if len(host.requests()) != 1 {
			t.Fatalf("%q: %d, refused %q", test.offer, res.StatusCode, w.refusals())
		}
		h := host.header(0)
		for _, name := range []string{"Upgrade", "Http2-Settings", "Connection"} {
			if h[name] != nil {
				t.Errorf("%q: the host got %v", test.offer, h)
			}
		}
		if res.StatusCode != http.StatusOK || len(w.refusals()) != 0 {
			t.Errorf("%q: %d, refused %q", test.offer, res.StatusCode, w.refusals())
		}
		res, body := say(t, c, in, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI")
		checkRefusal(t, res, body, egress.ReasonUpgrade)
	}
}
