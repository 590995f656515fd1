package setup_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
)

// TestConfig prints a snippet for each client, without a credential, and with a time limit
// above the limit of approvals (10 minutes).
func TestConfig(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Env["PALYRA_LISTEN_AGENTS"] = "127.0.0.1:7145"
	for client, wants := range map[string][]string{
		"claude-code": {`"mcpServers"`, `"type": "http"`, `"url": "http://127.0.0.1:7145/mcp"`, `"Authorization": "Bearer ${PALYRA_TOKEN}"`, `"timeout": 630000`},
		"codex":       {"[mcp_servers.palyra]", `url = "http://127.0.0.1:7145/mcp"`, `bearer_token_env_var = "PALYRA_TOKEN"`, "tool_timeout_sec = 630"},
		"cursor":      {`"mcpServers"`, `"Bearer ${env:PALYRA_TOKEN}"`},
		"vscode":      {`"servers"`, `"type": "http"`},
		"generic":     {`"mcpServers"`, `"url": "http://127.0.0.1:7145/mcp"`},
	} {
		r := w.Run("mcp", "config", client)
		for _, want := range wants {
			if r.Code != 0 || !strings.Contains(r.Out, want) || strings.Contains(r.Out, "pal_") {
				t.Errorf("%s: %d, want %s in\n%s%s", client, r.Code, want, r.Out, r.Err)
			}
		}
		if !strings.Contains(r.Err, "palyra tokens create") {
			t.Errorf("%s: said %q", client, r.Err)
		}
	}
	if r := w.Run("mcp", "config", "codex", "--stdio"); !strings.Contains(r.Out, `args = ["mcp", "serve"]`) {
		t.Errorf("over stdio: %s", r.Out)
	}
	if r := w.Run("mcp", "config", "emacs"); r.Code != 2 || !strings.Contains(r.Err, "claude-code, codex, cursor, generic, vscode") {
		t.Errorf("an unknown client: %d %s", r.Code, r.Err)
	}
}
