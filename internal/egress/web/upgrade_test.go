package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"palyra/internal/egress"
)

const wantsWebSocket = "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"

// echoes switches to a protocol and sends back what it gets.
func echoes(protocol string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
		_, _ = io.Copy(conn, in)
	})
}

func TestWebSocket(t *testing.T) {
	for _, kind := range []string{"plain", "inspected"} {
		for _, leaves := range []string{"client", "gateway"} {
			t.Run(kind+", "+leaves+" leaves", func(t *testing.T) {
				target := map[string]string{"plain": "example.org:80", "inspected": "example.org:443"}[kind]
				w := newWorld(t, target)
				w.inspect([]string{"GET"}, []string{"/chat"})
				var c net.Conn
				if kind == "plain" {
					w.host(target, echoes("websocket"))
					c = w.serve()
				} else {
					a := newAuthorities(t)
					w.secureHost(a, target, echoes("websocket"), "h2", "http/1.1")
					c = w.inspected(a, "http/1.1")
				}
				in := bufio.NewReader(c)
				io.WriteString(c, wantsWebSocket)
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" {
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
					c.Close() // the end of the test sees Serve come back
				}
			})
		}
	}
}

func TestWebSocketNeedsLeave(t *testing.T) {
	for _, test := range []struct {
		methods, paths []string
		why            string
	}{
		{[]string{"POST"}, nil, egress.ReasonMethod},
		{nil, []string{"/other"}, egress.ReasonPath},
	} {
		w := newWorld(t, "example.org:80")
		w.inspect(test.methods, test.paths)
		host := w.host("example.org:80", echoes("websocket"))
		c := w.serve()
		res, body := say(t, c, bufio.NewReader(c), wantsWebSocket, "GET")
		checkRefusal(t, res, body, test.why)
		if len(host.requests()) != 0 {
			t.Errorf("the host saw %q", host.requests())
		}
	}
}

// TestOtherProtocol has a host that switches to something else.
func TestOtherProtocol(t *testing.T) {
	w := newWorld(t, "example.org:80")
	w.host("example.org:80", echoes("h2c"))
	c := w.serve()
	in := bufio.NewReader(c)
	res, _ := say(t, c, in, wantsWebSocket, "GET")
	if res.StatusCode != 502 || res.Header.Get(ReasonHeader) != egress.ReasonUpgrade || !ended(c, in) {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if got := w.refusals(); len(got) != 1 || got[0] != "example.org:80 upgrade" {
		t.Errorf("the record is %q", got)
	}
}

// TestConnectionUpgradeAlone: without a protocol there is nothing to switch to,
// and the host does not hear of it.
func TestConnectionUpgradeAlone(t *testing.T) {
	w := newWorld(t, "example.org:80")
	host := w.host("example.org:80", nil)
	c := w.serve()
	res, _ := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\n\r\n", "GET")
	if h := host.header(0); res.StatusCode != 200 || len(h) != 0 {
		t.Errorf("%d, the host got %v", res.StatusCode, h)
	}
}
