//go:build linux

package e2e

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra/internal/exec/upstream/packages/packagestest"
)

// TestPrivateRegistry: npm and pip install from a registry that requires a login. The gateway
// replaces a placeholder by the login, which appears in no file or output of palyrad (keep).
// Controls: no login and a wrong login, which the registry refuses.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	const token, wrong = "npm_0123456789abcdefghijklmnop", "npm_of-somebody-else-0123456789"
	basic := func(user string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+token)) }
	var mu sync.Mutex
	shown := map[string]bool{}
	registry := packagestest.NewPrivate(t, func(authorization string) bool {
		mu.Lock()
		defer mu.Unlock()
		shown[authorization] = true
		return authorization == "Bearer "+token || authorization == basic("__token__") || authorization == basic("ann")
	})
	registry.PutProbe("1.0.0")
	closed := packagestest.New(t)
	closed.Authorized = func(string) bool { return false }
	closed.PutProbe("1.0.0")
	g := newGateway(t)
	g.policy("10.cedar", ownServers)
	roots := filepath.Join(g.Dir, "roots.pem")
	g.write(roots, string(registry.Certificate))
	g.Env = append(g.Env, "SSL_CERT_FILE="+roots)
	g.Start()
	c := g.local()
	c.keep("vault://global/registry", token, "--host", registry.Host())
	c.keep("vault://global/wrong", wrong, "--host", registry.Host())
	c.keep("vault://global/elsewhere", token, "--host", "registry.example.org:443")

	npm := []string{"--registry", registry.URL, "--", "npx", "@probe/server"}
	pip := []string{"--registry", registry.Index, "--", "uvx", "probe-server"}
	add := func(flags []string, rest ...string) []string {
		return append(append([]string{"mcp", "add", "probe"}, flags...), rest...)
	}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"npm without a login":         {add(nil, "--registry", closed.URL, "--", "npx", "@probe/server"), "(401 or 403)"},
		"pip without a login":         {add(nil, "--registry", closed.Index, "--", "uvx", "probe-server"), "name it with --registry-secret"},
		"npm with another":            {add([]string{"--registry-secret", "vault://global/wrong"}, npm...), "rejects the login"},
		"pip with another":            {add([]string{"--registry-secret", "vault://global/wrong"}, pip...), "rejects the login"},
		"a secret for another host":   {add([]string{"--registry-secret", "vault://global/elsewhere"}, npm...), "vault put vault://global/elsewhere --host"},
		"a secret that is not there":  {add([]string{"--registry-secret", "vault://global/none"}, npm...), "which does not exist"},
		"a user at a registry of npm": {add([]string{"--registry-secret", "vault://global/registry", "--registry-user", "ann"}, npm...), "accept a token"},
		"a user without a secret":     {add([]string{"--registry-user", "ann"}, pip...), "requires a secret"},
		"a user that is none":         {add([]string{"--registry-secret", "vault://global/registry", "--registry-user", "a:b@c"}, pip...), "not a valid registry user"},
	} {
		if r := c.run(row.args...); r.Code == 0 || !strings.Contains(r.Err, row.want) {
			t.Errorf("%s: %d, %s", name, r.Code, r.Err)
		}
	}
	for name, args := range map[string][]string{
		"npm":             add([]string{"--registry-secret", "vault://global/registry"}, npm...),
		"pip":             add([]string{"--registry-secret", "vault://global/registry"}, pip...),
		"pip with a user": add([]string{"--registry-secret", "vault://global/registry", "--registry-user", "ann"}, pip...),
	} {
		told := c.ok(args...)
		if !strings.Contains(told, "vault://global/registry") {
			t.Errorf("%s: shown as %s", name, told)
		}
		if told := c.ok("call", "probe/where"); !strings.Contains(told, filepath.Join(g.State, "packages", "installed", "probe")) {
			t.Errorf("%s: it runs from %s", name, told)
		}
		if name == "npm" { // an update sends the same login
			registry.PutProbe("1.1.0")
			if told := c.ok("mcp", "update", "probe"); !strings.Contains(told, "1.1.0") {
				t.Errorf("updated to %s", told)
			}
		}
		c.ok("mcp", "remove", "probe", "--yes")
	}
	mu.Lock()
	defer mu.Unlock()
	for header := range shown {
		if strings.Contains(header, "palyra-sec-") {
			t.Errorf("the registry was shown the placeholder %s", header)
		}
	}
	for _, want := range []string{"Bearer " + token, basic("__token__"), basic("ann")} {
		if !shown[want] {
			t.Errorf("the registry was not shown %s", want)
		}
	}
}
