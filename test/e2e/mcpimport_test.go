//go:build linux

package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/upstream/packages/packagestest"
)

const ownServers = `@id("test.servers")
@reason("the servers of this test are its own")
@waives("approval: the servers are the test's own")
permit(principal, action in Action::"tool.execute", resource)
when { context.egress.mode == "strict" && (resource.name like "probe/*" || resource.name == "package.install") };
`

// TestMCPImport imports an npx server with a secret into the gateway. The server runs from its
// prefix, also after a crash. Its secret is in the vault and is sent only to its host. The undo
// restores the client's file and leaves nothing at the gateway.
func TestMCPImport(t *testing.T) {
	t.Parallel()
	const token = "ghp_0123456789abcdefghijklmnop"
	var got string
	host := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	t.Cleanup(host.Close)
	registry := packagestest.New(t)
	registry.PutProbe("1.0.0")
	g := newGateway(t)
	g.policy("10.cedar", ownServers)
	roots := filepath.Join(g.Dir, "roots.pem")
	g.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: host.Certificate().Raw})))
	g.Env = append(g.Env, "SSL_CERT_FILE="+roots)
	g.Start()
	c := g.local()
	file := filepath.Join(g.Dir, ".claude.json")
	before := fmt.Sprintf(`{"projects": {"/p": {"mcpServers": {"probe": {"command": "npx", "args": ["-y", "@probe/server@1"], "env": {"PROBE_TOKEN": %q}}}}}}`, token)
	must.Do(t, os.WriteFile(file, []byte(before), 0o600))

	address := strings.TrimPrefix(host.URL, "https://")
	c.ok("mcp", "import", "claude-code", "--yes", "--registry", "npm="+registry.URL, "--host", "probe="+address)
	after := string(must.Get(os.ReadFile(file))(t))
	if strings.Contains(after, token) || strings.Contains(after, "probe") {
		t.Errorf("the file is %s", after)
	}
	where := func() {
		t.Helper()
		if told := c.ok("call", "probe/where"); !strings.Contains(told, filepath.Join(g.State, "packages", "installed", "probe")) {
			t.Errorf("it runs from %s", told)
		}
	}
	where()
	seen := c.ok("call", "probe/variables")
	if strings.Contains(seen, token) || !strings.Contains(seen, "palyra-sec-") {
		t.Errorf("the program sees %s", seen)
	}
	_, placeholder, _ := strings.Cut(seen, `PROBE_TOKEN\":\"`)
	placeholder, _, _ = strings.Cut(placeholder, `\"`)
	c.ok("call", "probe/authorize", "--input", fmt.Sprintf(`{"a":%q,"b":"Bearer %s"}`, address, placeholder))
	if got != "Bearer "+token {
		t.Errorf("the host got %q of %q", got, placeholder)
	}
	g.Kill()
	g.Start()
	where()
	c.ok("mcp", "import", "--undo")
	if now := string(must.Get(os.ReadFile(file))(t)); now != before {
		t.Errorf("the file is %s", now)
	}
	if _, err := os.Stat(filepath.Join(g.State, "packages", "installed", "probe")); err == nil {
		t.Error("the prefix is there still")
	}
	if told := c.ok("vault", "list", "-o", "name"); strings.Contains(told, "probe") {
		t.Errorf("the vault has %s", told)
	}
}
