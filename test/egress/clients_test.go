//go:build linux

package egress

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/exec/sandbox"
)

// client is a program that fetches URLs. Its arguments are pairs of a family and a URL, and it
// prints a line for each.
type client struct {
	name string
	argv []string
	// insists is true for a client that retries after a reset.
	insists bool
}

func clients() []client {
	list := []client{
		{name: "curl", argv: []string{"bash", "curl.sh"}},
		{name: "wget", argv: []string{"bash", "wget.sh"}},
		{name: "python", argv: []string{"python3", "fetch.py"}},
		{name: "node", argv: []string{"node", "fetch.mjs"}},
		{name: "go", argv: []string{"./client", "fetch"}},
	}
	if installed("java") && installed("javac") {
		list = append(list, client{name: "java", argv: []string{"bash", "java.sh"}, insists: true})
	}
	return list
}

// visit is one URL, the client's output for it, and the expected records.
type visit struct {
	family, url, says string
	ledger            []string
}

// fetch has a client fetch all URLs in one run, with further variables in its environment. It
// compares the client's output and the records.
func (g *ground) fetch(t *testing.T, c client, visits []visit, env ...string) {
	t.Helper()
	s := g.spec(t, allowed(), c.argv...)
	s.Env = append(s.Env, env...)
	g.fetchBy(t, c, s, visits)
}

// fetchBy is fetch with a given run.
func (g *ground) fetchBy(t *testing.T, c client, s sandbox.Spec, visits []visit) {
	t.Helper()
	var lines, ledger []string
	for _, v := range visits {
		s.Argv = append(s.Argv, v.family, v.url)
		lines = append(lines, v.family+" "+v.url+" "+v.says)
		ledger = append(ledger, v.ledger...)
	}
	said, recorded, report := g.run(t, s)
	if c.insists {
		recorded = slices.Compact(recorded)
	}
	expect(t, c.name+" says", said, lines, report.Stderr)
	expect(t, "the record of "+c.name, recorded, ledger, report.Stderr)
}

// TestClientsReachAllowedHosts: clients reach allowed hosts by name, over IPv4 and IPv6, by
// HTTP and HTTPS, without proxy settings.
func TestClientsReachAllowedHosts(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	const says = "hello from " + allowedHost
	visits := []visit{
		{"4", "http://" + allowedHost + "/hello", says, []string{"name allowed.example allowed", "transparent allowed.example:80 allowed"}},
		{"4", "https://" + allowedHost + "/hello", says, []string{"transparent allowed.example:443 allowed"}},
		{"6", "http://" + allowedHost + "/hello", says, []string{"transparent allowed.example:80 allowed"}},
		{"6", "https://" + allowedHost + "/hello", says, []string{"transparent allowed.example:443 allowed"}},
	}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) { g.fetch(t, c, visits) })
	}
}

// TestClientsReachNothingElse: clients cannot reach other names, addresses or ports, or the
// target of a redirect. Control: each of them exists.
func TestClientsReachNothingElse(t *testing.T) {
	t.Parallel()
	const deniedSays, failed = "hello from " + deniedHost, "failed"
	visits := []struct {
		visit
		control string
	}{
		{visit{"4", "http://" + deniedHost + "/hello", failed, []string{"name denied.example denied unlisted"}}, deniedSays},
		{visit{"4", "https://" + deniedHost + "/hello", failed, nil}, deniedSays},
		{visit{"4", "http://" + literal4 + "/hello", failed, []string{"transparent 11.0.0.66:80 denied unlisted"}}, "hello from " + literal4},
		{visit{"4", "http://" + allowedHost + "/redirect", failed, []string{"name allowed.example allowed", "transparent allowed.example:80 allowed"}}, deniedSays},
		{visit{"4", "http://" + allowedHost + ":8080/hello", failed, nil}, failed},
		{visit{"4", "http://198.18.77.77/hello", failed, []string{"transparent 198.18.77.77:80 denied unlisted"}}, failed},
		{visit{"6", "http://" + deniedHost + "/hello", failed, nil}, deniedSays},
		{visit{"6", "http://[" + literal6 + "]/hello", failed, []string{"transparent [2a00::66]:80 denied unlisted"}}, "hello from [" + literal6 + "]"},
	}
	g := newGround(t)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			var denied []visit
			for _, v := range visits {
				denied = append(denied, v.visit)
			}
			g.fetch(t, c, denied)
			if strays := g.escaped(); len(strays) > 0 {
				t.Errorf("ESCAPE: %v", strays)
			}
			argv := slices.Clone(c.argv)
			var want []string
			for _, v := range visits {
				argv = append(argv, v.family, v.url)
				want = append(want, v.family+" "+v.url+" "+v.control)
			}
			said, _, report := g.run(t, g.spec(t, everything(), argv...))
			expect(t, "the control says", said, want, report.Stderr)
			if strays := strings.Join(g.escaped(), " "); !strings.Contains(strays, literal4) || !strings.Contains(strays, literal6) {
				t.Errorf("the control was seen at %q alone", strays)
			}
		})
	}
}
