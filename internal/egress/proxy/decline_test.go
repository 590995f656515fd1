package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"palyra/internal/egress"
)

// TestDeclined: a program that reaches an address which no rule allows gets an answer that names the
// policy, on the ports of the web and in its own protocol. Nothing reaches a host. Controls: the
// same requests to an allowed host, a port of another protocol, and loopback, where a program
// expects its own services.
func TestDeclined(t *testing.T) {
	t.Parallel()
	const get = "GET /secret HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	for _, c := range []struct{ name, target, says, want string }{
		{"HTTP", "11.9.9.9:80", get, "Blocked host: 11.9.9.9:80 (policy: this tool may reach only "},
		{"HTTP with much data", "11.9.9.9:80", "POST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 32768\r\n\r\n" + strings.Repeat("x", 32768), "Blocked host: 11.9.9.9:80 "},
		{"a port of an allowed host", "other.test:80", get, "Blocked host: other.test:80 "},
		{"another protocol", "11.9.9.9:443", "\x00\x01\x02", ""},
		{"another port", "11.9.9.9:7", get, ""},
		{"loopback", "127.0.0.1:80", get, ""},
		{"loopback, mapped", "[::ffff:127.0.0.1]:80", get, ""},
		{"loopback of IPv6", "[::1]:80", get, ""},
		{"allowed", "api.test:80", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n", "GET api.test "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:80", pages)
			w.serve(grantOf(t, "api.test:80", "api.test:443", "other.test:7"))
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
		w.serve(grantOf(t, "api.test:443"))
		conn := w.must(w.transparent("11.9.9.9:443"))
		err := tls.Client(conn, &tls.Config{ServerName: "evil.test"}).HandshakeContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("got %v", err)
		}
		if got := w.only(); got.Reason != egress.ReasonUnlisted || got.Verdict != egress.VerdictDenied {
			t.Errorf("ledger: %+v", got)
		}
	})
}
