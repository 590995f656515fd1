package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

func TestEachLegReachesWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		for _, c := range []struct {
			target string
			talk   func(*testing.T, *world, net.Conn)
		}{
			{"api.test:443", func(t *testing.T, w *world, conn net.Conn) { exchange(t, w.client(conn, "api.test"), "inside TLS") }},
			{"api.test:80", func(t *testing.T, _ *world, conn net.Conn) { get(t, conn, "api.test", "GET api.test ") }},
			{"api.test:8080", func(t *testing.T, _ *world, conn net.Conn) { get(t, conn, "api.test:8080", "GET api.test:8080 ") }},
			{"api.test:8443", func(t *testing.T, w *world, conn net.Conn) { exchange(t, w.client(conn, "api.test"), "inside TLS") }},
			{"api.test:22", func(t *testing.T, _ *world, conn net.Conn) {
				line, err := bufio.NewReader(io.LimitReader(conn, 21)).ReadString('\n')
				if err != nil || line != "220 at your service\r\n" {
					t.Fatalf("banner %q, %v", line, err)
				}
				exchange(t, conn, "hello\r\n")
			}},
			{"api.test:7", func(t *testing.T, _ *world, conn net.Conn) { exchange(t, conn, "hello") }},
			{"11.9.9.9:7", func(t *testing.T, _ *world, conn net.Conn) { exchange(t, conn, "\x00\x01hello") }},
		} {
			t.Run(leg+" "+c.target, func(t *testing.T) {
				w := newWorld(t)
				w.host("api.test:443", w.secure("api.test", echo))
				w.host("api.test:8443", w.secure("api.test", echo))
				w.host("api.test:80", pages)
				w.host("api.test:8080", pages)
				w.host("api.test:22", banner)
				w.host("api.test:7", echo)
				w.host("11.9.9.9:7", echo)
				w.serve(grantOf(t, "api.test:443", "api.test:80", "api.test:8080", "*.test:8443", "api.test:22", "api.test:7", "11.9.9.9:7"))
				conn := w.must(connect(w, c.target))
				c.talk(t, w, conn)
				conn.Close()
				got := w.only()
				if net.JoinHostPort(got.Host, fmt.Sprint(got.Port)) != c.target || got.Leg != leg || got.Verdict != egress.VerdictAllowed || got.Reason != "" {
					t.Errorf("ledger: %+v", got)
				}
				if got.BytesOut == 0 || got.BytesIn == 0 || got.Rule == "" || got.Address == "" {
					t.Errorf("ledger: %+v", got)
				}
			})
		}
	}
}

// get requests a page and checks that the answer has the wanted prefix.
func get(t testing.TB, conn net.Conn, host, want string) {
	t.Helper()
	must.Get(fmt.Fprintf(conn, "GET /page HTTP/1.1\r\nHost: %s\r\n\r\n", host))(t)
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasPrefix(string(body), want) {
		t.Fatalf("%s: %q, %v", answer.Status, body, err)
	}
}

func TestEachLegRefusesEverythingElse(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		for _, c := range []struct{ target, reason string }{
			{"11.1.1.1:443", egress.ReasonUnlisted},
			{"11.0.0.1:443", egress.ReasonUnlisted}, // the address that belongs to an allowed name
			{"api.test:22", egress.ReasonUnlisted},
			{"127.0.0.1:443", egress.ReasonUnlisted}, // the sandbox's loopback, not the machine's
			{"10.0.0.1:443", egress.ReasonUnlisted},
			{"169.254.169.254:80", egress.ReasonUnlisted},
			{"198.18.0.77:443", egress.ReasonUnlisted}, // in the pool, but not assigned to a name
			{"12.0.0.1:443", egress.ReasonDeniedRule},
			{"private.test:443", egress.ReasonAddressNotPublic},
			{"gone.test:443", egress.ReasonUnreachable},
		} {
			t.Run(leg+" "+c.target, func(t *testing.T) {
				w := newWorld(t)
				w.host("api.test:443", echo)
				w.addresses["private.test"] = mustAddr(t, "127.0.0.1")
				w.addresses["gone.test"] = mustAddr(t, "11.7.7.7")
				grant := grantOf(t, "api.test:443", "*.test:443", "12.0.0.0/8:443", "other.test:22", "other.test:80")
				grant.Rules.Deny = grantOf(t, "12.0.0.1").Rules.Allow
				w.serve(grant)
				conn, err := connect(w, c.target)
				refusedOn(t, leg, c.reason, conn, err)
				got := w.only()
				if got.Reason != c.reason || got.Leg != leg || got.Verdict == egress.VerdictAllowed || got.BytesOut != 0 {
					t.Errorf("ledger: %+v", got)
				}
				if len(w.dialled) > 0 && c.reason != egress.ReasonUnreachable {
					t.Errorf("dialled %v", w.dialled)
				}
			})
		}
	}
}

// refusedOn checks for the form of refusal that the leg uses.
func refusedOn(t *testing.T, leg, why string, conn net.Conn, err error) {
	t.Helper()
	switch leg {
	case egress.LegTransparent:
		must.Do(t, err)
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the program sees %v, want a reset", err)
		}
	case egress.LegConnect:
		status := "HTTP/1.1 403 "
		if why == egress.ReasonUnreachable {
			status = "HTTP/1.1 502 "
		}
		if err == nil || !strings.HasPrefix(err.Error(), status) || !strings.Contains(err.Error(), "Palyra-Reason: "+why+"\r\n") {
			t.Errorf("the program sees %v, want %s and %s", err, status, why)
		}
		if why == egress.ReasonUnlisted && !strings.Contains(err.Error(), "policy: this tool may reach only ") {
			t.Errorf("the program is told %v", err)
		}
	case egress.LegSOCKS:
		reply := "SOCKS reply 2"
		if why == egress.ReasonUnreachable {
			reply = "SOCKS reply 4"
		}
		if err == nil || err.Error() != reply {
			t.Errorf("the program sees %v, want %s", err, reply)
		}
	}
}
