//go:build linux

package egress

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// inspect enables TLS inspection for a host, and permits only reads from the given paths.
func inspect(t *testing.T, s *sandbox.Spec, host string, paths ...string) {
	t.Helper()
	rule := must.Get(egress.ParseRule(host + ":443"))(t)
	s.Network.Inspect = []egress.Inspection{{Host: rule, Paths: paths}}
	s.Env = nil // no variable makes a client trust the tests' authority
}

// roots returns a pool with the tests' authority, for the daemon.
func (w *world) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.authority)
	return pool
}

// TestInspectedHosts: clients find the authority of their run through environment variables and
// trust it. They can read only the allowed paths.
func TestInspectedHosts(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	visits := []visit{
		{"4", "https://" + allowedHost + "/hello", "hello from " + allowedHost, []string{"name allowed.example allowed", "transparent allowed.example:443 allowed"}},
		{"6", "https://" + allowedHost + "/redirect", "failed", []string{"transparent allowed.example:443 denied path"}},
	}
	for _, c := range clients() {
		if c.name == "wget" || c.name == "java" {
			continue // this client supports no such variable
		}
		t.Run(c.name, func(t *testing.T) {
			s := g.spec(t, allowed(), c.argv...)
			inspect(t, &s, allowedHost, "/hello")
			g.fetchBy(t, c, s, visits)
		})
	}
	for _, test := range []struct {
		name, host        string
		paths, argv, says []string
	}{
		{"git", gitHost, []string{"/tiny.git/**"}, []string{"git.sh", "4", "https://" + gitHost + "/tiny.git"}, []string{"cloned"}},
		{"npm", npmHost, []string{"/tiny", "/tiny/**"}, []string{"npm.sh", "4", "https://" + npmHost + "/"}, []string{"1.0.0", "installed"}},
		{"pip", pypiHost, []string{"/simple/**", "/files/**"}, []string{"pip.sh", "4", "https://" + pypiHost + "/simple"}, []string{"downloaded"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := g.spec(t, allowed(), slices.Concat([]string{"bash"}, test.argv)...)
			inspect(t, &s, test.host, test.paths...)
			said, recorded, report := g.run(t, s)
			expect(t, "it says", said, test.says, report.Stderr)
			expect(t, "the record", distinct(recorded), []string{"name " + test.host + " allowed", "transparent " + test.host + ":443 allowed"}, report.Stderr)
			requests := 0
			for _, c := range report.Connections {
				requests += c.Requests
			}
			if requests < 2 {
				t.Errorf("%d requests were told apart", requests)
			}
		})
	}
}

// TestRefusalIsRead: a client that sends a body to an inspected host reads why
// its request is refused.
func TestRefusalIsRead(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, protocol := range []string{"--http1.1", "--http2"} {
		for _, body := range []string{"x", "@/usr/bin/curl"} {
			s := g.spec(t, allowed(), "curl", "-sS", protocol, "--data-binary", body, "-w", "%{http_code}", "https://"+allowedHost+"/refused")
			inspect(t, &s, allowedHost, "/hello")
			said, _, report := g.run(t, s)
			if len(report.Stderr.Head) > 0 || !strings.Contains(strings.Join(said, " "), "/hello") || !strings.HasSuffix(said[len(said)-1], "403") {
				t.Errorf("%s %s: said %q, errors %s", protocol, body, said, report.Stderr.Head)
			}
		}
	}
}
