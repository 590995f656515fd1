//go:build linux

package egress

import (
	"strings"
	"testing"

	"palyra/internal/exec/sandbox/jail/jailtest"
)

// trick is a bypass attempt of a program, its expected result, and the expected records.
type trick struct {
	try, says string
	ledger    []string
}

// TestBypassAttempts: a program that tries anything except connecting to an allowed host by its
// name fails at once, with a specific error.
func TestBypassAttempts(t *testing.T) {
	t.Parallel()
	const toAllowed = "transparent allowed.example:"
	g := newGround(t)
	for _, test := range []struct {
		name   string
		tricks []trick
	}{
		{"a name server of one's own", []trick{
			{"dns,udp,8.8.8.8:53," + deniedHost + ".", "refused", nil},
			{"dns,tcp,8.8.8.8:53," + deniedHost + ".", "refused", nil},
			{"dns,udp,[2001:4860:4860::8888]:53," + allowedHost + ".", "refused", nil},
			{"dns,udp,127.0.0.1:53," + allowedHost + ".", "Success with 1 answers", []string{"name allowed.example allowed"}},
			{"dns,tcp,127.0.0.1:53," + allowedHost + ".", "Success with 1 answers", nil},
			{"dns,tcp,127.0.0.1:53," + deniedHost + ".", "NameError with 0 answers", []string{"name denied.example denied unlisted"}},
			{"dns,udp,127.0.0.1:53,c2VjcmV0." + deniedHost + ".", "NameError with 0 answers", []string{"name c2vjcmv0.denied.example denied unlisted"}},
			{"dns,udp,127.0.0.1:53,c2VjcmV0." + allowedHost + ".", "NameError with 0 answers", []string{"name c2vjcmv0.allowed.example denied unlisted"}},
		}},
		{"datagrams", []trick{
			{"udp," + allowedHost + ":443", "refused", []string{"name allowed.example allowed"}}, // QUIC
			{"udp,11.0.0.1:443", "refused", nil},
			{"udp,[2a00::1]:443", "refused", nil},
			{"udp,11.0.0.1:80", "refused", nil},
			{"udp,127.0.0.1:1080", "refused", nil},
		}},
		{"ports", []trick{
			{"tcp," + allowedHost + ":22", "refused", []string{"name allowed.example allowed"}},
			{"tcp,127.0.0.1:22", "refused", nil},
			{"tcp,11.0.0.1:22", "refused", nil},
			{"tcp,[::1]:22", "refused", nil},
		}},
		{"addresses", []trick{
			{"tcp,11.0.0.1:80", "reset", []string{"transparent 11.0.0.1:80 denied unlisted"}}, // of an allowed host
			{"tcp,[2a00::1]:443", "reset", []string{"transparent [2a00::1]:443 denied unlisted"}},
			{"tcp,127.0.0.1:80", "reset", []string{"transparent 127.0.0.1:80 denied unlisted"}},
			{"tcp,[::1]:80", "reset", []string{"transparent [::1]:80 denied unlisted"}},
			{"tcp,[::ffff:11.0.0.66]:80", "reset", []string{"transparent 11.0.0.66:80 denied unlisted"}},
			{"tcp,169.254.169.254:80", "reset", []string{"transparent 169.254.169.254:80 denied unlisted"}},
			{"tcp,[64:ff9b::b00:42]:80", "reset", []string{"transparent [64:ff9b::b00:42]:80 denied unlisted"}},
			{"tcp,0.0.0.0:80", "reset", []string{"transparent 127.0.0.1:80 denied unlisted"}},
			{"tcp,198.18.0.1:80", "reset", []string{"transparent 198.18.0.1:80 denied unlisted"}}, // of no name yet
			{"tcp,[fd00::1]:80", "reset", []string{"transparent [fd00::1]:80 denied unlisted"}},
		}},
		{"server names of TLS", []trick{
			{"tls," + allowedHost + ":443," + allowedHost, "spoken to", []string{"name allowed.example allowed", toAllowed + "443 allowed"}},
			{"tls," + allowedHost + ":443," + deniedHost, "reset", []string{toAllowed + "443 denied name_mismatch"}},
			{"tls," + allowedHost + ":443," + gitHost, "reset", []string{toAllowed + "443 denied name_mismatch"}},
			{"tls," + allowedHost + ":443,", "reset", []string{toAllowed + "443 denied no_name"}},
			{"tcp," + allowedHost + ":443", "reset", []string{toAllowed + "443 denied bad_tls"}},
			{"http," + allowedHost + ":443," + allowedHost, "reset", []string{toAllowed + "443 denied bad_tls"}},
			{"tls," + echoHost + ":7777," + deniedHost, "reset", []string{"name echo.example allowed", "transparent echo.example:7777 denied name_mismatch"}},
		}},
		{"hosts of HTTP", []trick{
			{"http," + allowedHost + ":80," + allowedHost, "200 OK", []string{"name allowed.example allowed", toAllowed + "80 allowed"}},
			{"http," + allowedHost + ":80," + deniedHost, "403 Forbidden", []string{toAllowed + "80 denied host_mismatch"}},
			{"http," + allowedHost + ":80," + gitHost, "403 Forbidden", []string{toAllowed + "80 denied host_mismatch"}},
			{"http," + allowedHost + ":80," + allowedHost + ":443", "403 Forbidden", []string{toAllowed + "80 denied host_mismatch"}},
			{"tls," + allowedHost + ":80," + allowedHost, "tls: first record does not look like a TLS handshake", []string{toAllowed + "80 denied bad_http"}},
			{"http," + echoHost + ":7777," + deniedHost, "403 Forbidden", []string{"name echo.example allowed", "transparent echo.example:7777 denied host_mismatch"}},
		}},
		{"neither HTTP nor TLS", []trick{
			{"tcp," + echoHost + ":7777", "hello", []string{"name echo.example allowed", "transparent echo.example:7777 allowed"}},
		}},
		{"other sockets", []trick{
			{"raw,icmp4", "not permitted", nil}, {"raw,icmp6", "not permitted", nil}, {"raw,ip", "not permitted", nil}, {"raw,packet", "not permitted", nil},
			{"raw,vsock", "not permitted", nil}, {"raw,unix", "opened", nil}, {"raw,xdp", "not permitted", nil}, // Unix sockets work inside a copy
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			argv := []string{"./client", "try"}
			var says, ledger []string
			for _, trick := range test.tricks {
				argv = append(argv, trick.try)
				says = append(says, trick.try+" "+trick.says)
				ledger = append(ledger, trick.ledger...)
			}
			said, recorded, report := g.run(t, g.spec(t, allowed(), argv...))
			expect(t, "it says", said, says, report.Stderr)
			expect(t, "the record", recorded, ledger, report.Stderr)
		})
	}
}

// TestNamesOverHTTPS: a DNS-over-HTTPS resolver is subject to the same rules as other hosts.
// Control: the client does query it.
func TestNamesOverHTTPS(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, test := range []struct {
		name   string
		hosts  []string
		strays bool
		ledger []string
	}{
		{"denied", allowed(), false, []string{"name denied.example denied unlisted"}},
		{"control", everything(), true, []string{"name denied.example allowed", "transparent denied.example:443 allowed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := jailtest.Run(t, g.runner, g.spec(t, test.hosts, "curl", "-sS", "--max-time", "60",
				"--doh-url", "https://"+deniedHost+"/dns-query", "http://"+allowedHost+"/hello"))
			if report.ExitCode == nil || *report.ExitCode == 0 || strings.Contains(string(report.Stdout.Head), "hello") {
				t.Errorf("ended with %s, stdout %s", jailtest.Ending(report), report.Stdout.Head)
			}
			expect(t, "the record", distinct(record(t, report)), test.ledger, report.Stderr)
			if strays := g.escaped(); len(strays) > 0 != test.strays {
				t.Errorf("strays %v", strays)
			}
		})
	}
}
