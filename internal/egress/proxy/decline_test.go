package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// TestDeclined: a program that reaches a host which no rule allows gets an answer that names the
// policy, on the ports of the web and in its own protocol. Nothing reaches a host. Controls: the
// same requests to an allowed host, and a port of another protocol.
func TestDeclined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, target, says, want string }{
		{"HTTP", "evil.test:80", "GET /secret HTTP/1.1\r\nHost: evil.test\r\n\r\n", "Blocked host: evil.test:80 (policy: this tool may reach only "},
		{"HTTP with much data", "evil.test:80", "POST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 32768\r\n\r\n" + strings.Repeat("x", 32768), "Blocked host: evil.test:80 "},
		{"an address", "11.9.9.9:80", "GET / HTTP/1.1\r\nHost: 11.9.9.9\r\n\r\n", "Blocked host: 11.9.9.9:80 "},
		{"another protocol", "evil.test:443", "\x00\x01\x02", ""},
		{"another port", "evil.test:7", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", ""},
		{"allowed", "api.test:80", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n", "GET api.test "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:80", pages)
			w.host("evil.test:80", pages)
			w.host("evil.test:443", echo)
			w.serve(grantOf(t, "api.test:80", "api.test:443", "api.test:7"))
			conn := w.must(w.transparent(c.target))
			_, _ = io.WriteString(conn, c.says)
			got, _ := io.ReadAll(conn)
			if !bytes.Contains(got, []byte(c.want)) || (c.want == "") != (len(got) == 0) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if entry := w.only(); (entry.Verdict == egress.VerdictAllowed) != (c.name == "allowed") || entry.Verdict == egress.VerdictDenied && entry.BytesOut+entry.BytesIn > 0 {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
	t.Run("TLS", func(t *testing.T) {
		w := newWorld(t)
		w.host("evil.test:443", w.secure("evil.test", echo))
		w.serve(grantOf(t, "api.test:443"))
		conn := w.must(w.transparent("evil.test:443"))
		err := tls.Client(conn, &tls.Config{ServerName: "evil.test"}).HandshakeContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("got %v", err)
		}
		if got := w.only(); got.Reason != egress.ReasonUnlisted || got.Verdict != egress.VerdictDenied {
			t.Errorf("ledger: %+v", got)
		}
	})
	t.Run("offline", func(t *testing.T) {
		w := newWorld(t)
		w.serve(egress.Reach{})
		addr := must.Get(w.lookup("evil.test"))(t)
		if !addr.IsLoopback() {
			t.Errorf("the name has the address %s", addr)
		}
		conn := w.must(w.transparent(addr.String() + ":80"))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		if got, _ := io.ReadAll(conn); !bytes.Contains(got, []byte("Blocked host: evil.test:80 (policy: this tool runs offline)")) {
			t.Errorf("got %q", got)
		}
	})
}
