//go:build linux

package egress

import (
	"testing"
)

// These are the proxies in the sandbox, for programs that are configured to use them.
const (
	httpProxy  = "http://127.0.0.1:3128"
	socksProxy = "socks5h://127.0.0.1:1080"
)

func proxied(by string) []string { return []string{"http_proxy=" + by, "https_proxy=" + by} }

// TestClientsWithAProxy: a program that is configured to use the sandbox's proxies reaches the
// same hosts through them, and no others.
func TestClientsWithAProxy(t *testing.T) {
	t.Parallel()
	const says, failed = "hello from " + allowedHost, "failed"
	visits := func(plain, secure string) []visit {
		return []visit{
			{"4", "http://" + allowedHost + "/hello", says, []string{plain + " allowed.example:80 allowed"}},
			{"4", "https://" + allowedHost + "/hello", says, []string{secure + " allowed.example:443 allowed"}},
			{"4", "http://" + deniedHost + "/hello", failed, []string{plain + " denied.example:80 denied unlisted"}},
			{"4", "https://" + deniedHost + "/hello", failed, []string{secure + " denied.example:443 denied unlisted"}},
			{"4", "http://" + literal4 + "/hello", failed, []string{plain + " 11.0.0.66:80 denied unlisted"}},
			{"4", "http://[" + literal6 + "]/hello", failed, []string{plain + " [2a00::66]:80 denied unlisted"}},
			{"4", "https://" + allowedHost + ":22/hello", failed, []string{secure + " allowed.example:22 denied unlisted"}},
		}
	}
	g := newGround(t)
	for _, c := range clients() {
		switch c.name {
		case "curl", "wget", "python", "go":
			t.Run(c.name, func(t *testing.T) { g.fetch(t, c, visits("forward", "connect"), proxied(httpProxy)...) })
		}
		switch c.name {
		case "curl", "go":
			t.Run(c.name+" by SOCKS", func(t *testing.T) { g.fetch(t, c, visits("socks", "socks"), proxied(socksProxy)...) })
		}
	}
}

// TestToolsWithAProxy is TestClientsWithAProxy for git, npm and pip.
func TestToolsWithAProxy(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, test := range []struct {
		name, script, url, says, proxy, ledger string
	}{
		{"git", "git.sh", "https://" + gitHost + "/tiny.git", "cloned", httpProxy, "connect git.example:443 allowed"},
		{"git http", "git.sh", "http://" + gitHost + "/tiny.git", "cloned", httpProxy, "forward git.example:80 allowed"},
		{"git by SOCKS", "git.sh", "https://" + gitHost + "/tiny.git", "cloned", socksProxy, "socks git.example:443 allowed"},
		{"npm", "npm.sh", "https://" + npmHost + "/", "1.0.0\ninstalled", httpProxy, "connect npm.example:443 allowed"},
		{"pip", "pip.sh", "https://" + pypiHost + "/simple", "downloaded", httpProxy, "connect pypi.example:443 allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := g.spec(t, allowed(), "bash", test.script, "4", test.url)
			s.Env = append(s.Env, proxied(test.proxy)...)
			said, recorded, report := g.run(t, s)
			expect(t, "it says", said, lines(test.says), report.Stderr)
			expect(t, "the record", distinct(recorded), []string{test.ledger}, report.Stderr)
		})
	}
}
