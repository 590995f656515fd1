package proxy

import (
	"io"
	"net"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/egress/web"
)

// ask writes to the HTTP proxy and returns the complete answer.
func (w *world) ask(says string) string {
	w.t.Helper()
	conn := must.Get(net.Dial("tcp", w.http.Addr().String()))(w.t)
	defer conn.Close()
	withDeadline(w.t, conn)
	must.Get(io.WriteString(conn, says))(w.t)
	answer, _ := io.ReadAll(conn) // may end with a reset
	return string(answer)
}

func TestInvalidConnectRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says, status, reason string
	}{
		"a name in front":       {"CONNECT evil.test@api.test:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a name behind":         {"CONNECT api.test:443@evil.test:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"no port":               {"CONNECT api.test HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"port 0":                {"CONNECT api.test:0 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a port too large":      {"CONNECT api.test:65979 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a decimal address":     {"CONNECT 184549377:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"an octal address":      {"CONNECT 013.0.0.1:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a zone":                {"CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"percent-encoded":       {"CONNECT api%2etest:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a NUL":                 {"CONNECT api.test\x00.evil.test:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a URL":                 {"CONNECT http://api.test:443/ HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a path":                {"CONNECT /api.test:443 HTTP/1.1\r\n\r\n", "403", egress.ReasonBadHTTP},
		"content":               {"CONNECT api.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "403", egress.ReasonBadHTTP},
		"chunks":                {"CONNECT api.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "403", egress.ReasonBadHTTP},
		"two lengths":           {"CONNECT api.test:443 HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", "403", egress.ReasonBadHTTP},
		"HTTP/2":                {"CONNECT api.test:443 HTTP/2.0\r\n\r\n", "403", egress.ReasonBadHTTP},
		"no version":            {"CONNECT api.test:443\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a malformed header":    {"CONNECT api.test:443 HTTP/1.1\r\nno header\r\n\r\n", "403", egress.ReasonBadHTTP},
		"a large header":        {"CONNECT api.test:443 HTTP/1.1\r\nA: " + strings.Repeat("a", web.MaxHeader) + "\r\n\r\n", "403", egress.ReasonHeaderTooLarge},
		"an endless head":       {"CONNECT api.test:443 HTTP/1.1\r\n" + strings.Repeat("A: a\r\n", web.MaxHeader/6), "403", egress.ReasonHeaderTooLarge},
		"a method in lowercase": {"connect api.test:443 HTTP/1.1\r\n\r\n", "403", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(grantOf(t, "api.test:443", "*.test:443", "11.0.0.0/8:443"))
			answer := w.ask(c.says)
			if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status+" ") {
				t.Errorf("answer %q", answer)
			}
			if got := w.only(); got.Verdict != egress.VerdictDenied || c.reason != "" && got.Reason != c.reason {
				t.Errorf("ledger: %+v", got)
			}
			if len(w.dialled) != 0 {
				t.Errorf("dialled %v", w.dialled)
			}
		})
	}
}

func TestNoRequestAfterConnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second, reason string
		most                  string // the expected complete answer
	}{
		"to a tunnel that must be TLS": {
			"CONNECT api.test:443 HTTP/1.1\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
			egress.ReasonSecondRequest, string(established),
		},
		"another CONNECT": {
			"CONNECT api.test:443 HTTP/1.1\r\n\r\n", "CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
			egress.ReasonSecondRequest, string(established),
		},
		"after one that was refused": {
			"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", "GET http://api.test:8080/ HTTP/1.1\r\nHost: api.test:8080\r\n\r\n",
			egress.ReasonUnlisted, "HTTP/1.1 403 ",
		},
		"to a tunnel of HTTP": {
			"CONNECT api.test:80 HTTP/1.1\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
			egress.ReasonHostMismatch, string(established) + "HTTP/1.1 403 ",
		},
		"to a tunnel of anything": {
			"CONNECT api.test:8080 HTTP/1.1\r\n\r\n", "CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
			"", string(established) + "HTTP/1.1 403 ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			heard := w.listening("api.test:443", "api.test:80", "api.test:8080")
			w.serve(grantOf(t, "api.test:443", "api.test:80", "api.test:8080"))
			answer := w.ask(c.first + c.second)
			if !strings.HasPrefix(answer, c.most) || strings.Count(answer, "HTTP/1.1 ") != strings.Count(c.most, "HTTP/1.1 ") {
				t.Errorf("answer %q, want no more than %q", answer, c.most)
			}
			got := w.only()
			if got.Verdict != egress.VerdictDenied || c.reason != "" && got.Reason != c.reason || got.BytesOut != 0 {
				t.Errorf("ledger: %+v", got)
			}
			w.nothing(heard)
		})
	}
}

func TestEarlyBytesBelongToTheTunnel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:7", echo)
	w.serve(grantOf(t, "api.test:7"))
	conn := w.must(net.Dial("tcp", w.http.Addr().String()))
	early := strings.Repeat("early\n", 5000) // more than one read returns
	must.Get(io.WriteString(conn, "CONNECT api.test:7 HTTP/1.1\r\n\r\n"+early))(t)
	must.Do(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != string(established)+early {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if c := w.only(); c.BytesOut != int64(len(early)) || c.BytesIn != int64(len(early)) {
		t.Errorf("ledger: %+v", c)
	}
}

func TestInvalidSOCKSRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says, answer, reason string
	}{
		"version 4":        {"\x04\x01\x01\xbb\x0b\x00\x00\x01\x00", "", egress.ReasonBadSOCKS},
		"with a password":  {"\x05\x01\x02", "\x05\xff", egress.ReasonBadSOCKS},
		"BIND":             {"\x05\x01\x00\x05\x02\x00\x01\x0b\x00\x00\x01\x01\xbb", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00", egress.ReasonBadSOCKS},
		"a malformed name": {"\x05\x01\x00\x05\x01\x00\x03\x03a b\x01\xbb", "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00", egress.ReasonBadSOCKS},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(grantOf(t, "api.test:443"))
			conn := w.must(net.Dial("tcp", w.socks.Addr().String()))
			defer conn.Close()
			must.Get(io.WriteString(conn, c.says))(t)
			answer, _ := io.ReadAll(conn) // may end with a reset
			if string(answer) != c.answer {
				t.Errorf("answer %q, want %q", answer, c.answer)
			}
			if got := w.only(); got.Reason != c.reason || got.Verdict != egress.VerdictDenied || got.Leg != egress.LegSOCKS {
				t.Errorf("ledger: %+v", got)
			}
		})
	}
}

func TestSOCKSClientsMaySendEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:7", echo)
	w.serve(grantOf(t, "api.test:7"))
	conn := w.must(net.Dial("tcp", w.socks.Addr().String()))
	must.Get(io.WriteString(conn, "\x05\x01\x00\x05\x01\x00\x03\x08api.test\x00\x07early"))(t)
	want := "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00early"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// Clients that resolve a name themselves send its address to a proxy.
func TestAnAddressThatStandsForAName(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{egress.LegConnect, egress.LegSOCKS} {
		t.Run(leg, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:443", w.secure("api.test", echo))
			w.serve(grantOf(t, "api.test:443"))
			addr := must.Get(w.lookup("api.test"))(t)
			conn := w.must(legs[leg](w, addr.String()+":443"))
			exchange(t, w.client(conn, "api.test"), "hello")
			conn.Close()
			if got := w.only(); got.Host != "api.test" || got.Verdict != egress.VerdictAllowed {
				t.Errorf("ledger: %+v", got)
			}
		})
	}
}

// A port that is also a service of the sandbox has one listener.
func TestServicesOnAPortOfTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:3128", echo)
	w.host("api.test:7", echo)
	w.serve(grantOf(t, "api.test:3128", "api.test:1080", "api.test:53", "api.test:7"))
	for at, c := range map[string]struct{ says, want string }{
		"127.0.0.1:3128": {"CONNECT api.test:7 HTTP/1.1\r\n\r\n", string(established)},
		"127.0.0.1:1080": {"\x05\x01\x00", "\x05\x00"},
		"127.0.0.1:53":   {"\x00\x0c\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x0c\x00\x07\x80"},
		// A host on that port is still reachable.
		"api.test:3128": {"hello", "hello"},
	} {
		conn := w.must(w.transparent(at))
		must.Get(io.WriteString(conn, c.says))(t)
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", at, got, err)
		}
		conn.Close()
	}
}
