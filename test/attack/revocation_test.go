//go:build linux

package attack

import (
	"fmt"
	"path/filepath"
	"strings"

	"palyra/internal/core/must"
)

// revocationRows are attacks by work that continues without the credential or the role that
// started it: with a revoked token, for a removed member, with an idempotency key whose client
// disconnected, and by a member's upstream server.
func revocationRows() []factRow {
	return []factRow{
		{"GW2-16", "call of a revoked token goes on", unattended, unattended, func(g *gateway, late bool) string {
			credentials := filepath.Join(g.Dir, "token")
			id := strings.TrimSpace(g.palyra("tokens", "create", "ci", "--scope", "tool.list,tool.call", "--out", credentials, "-o", "name").Out)
			return g.reducedWith(late, credentials, func() { g.palyra("tokens", "revoke", id, "--yes") })
		}},
		{"GW2-16", "call of a removed member goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.reduced(late, func() { g.palyra("members", "remove", "dev", "--reason", "left", "--yes") })
		}},
		{"GW2-16", "call with a key of a removed member goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.left(late, func() { g.palyra("members", "remove", "dev", "--reason", "left", "--yes") })
		}},
		{"GW2-16", "call with a key of a member whose role was lowered goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.left(late, func() {
				g.palyra("members", "roles", "dev", "--add", "auditor", "--remove", "operator", "--remove", "developer", "--yes")
			})
		}},
		{"GW2-16", "upstream server of a removed member", freeHere, freeHere, func(g *gateway, late bool) string {
			return g.serves(late, func() { g.palyra("members", "remove", "dev", "--reason", "left", "--yes") })
		}},
	}
}

// left has a member start a program with an idempotency key, ends the client, reduces the
// member's rights, and returns what the program wrote to the workspace.
func (g *gateway) left(late bool, reduce func()) string {
	dev := g.member("dev", "developer", "operator")
	seconds, token := map[bool]string{true: "20", false: "5"}[late], filepath.Base(g.Dir)
	g.ignoreSignals()
	call := g.begin("--credentials", dev, "call", "process.run", "argv="+list([]string{"python3", "stubborn.py", seconds, canary, token}), "--idempotency-key", "again")
	must.Eventually(g.T, "the program runs", func() (bool, string) { return inSandbox("python3", token) > 0, call.Err.String() })
	must.Do(g.T, call.Cmd.Process.Kill())
	<-call.Ended
	if late {
		reduce()
	}
	must.Eventually(g.T, "the call ends", func() (bool, string) {
		open := strings.TrimSpace(g.palyra("calls", "list", "--open", "-o", "name").Out)
		return open == "", open
	})
	return g.Read("made")
}

// server speaks MCP over standard input and output and has one tool.
const server = `import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
         "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
         "tools/call": {"content": [{"type": "text", "text": "called"}]}}.get(m["method"])
    answer = {"result": r} if r else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}), flush=True)
`

// serves has a member use an upstream server, reduces the member's rights, and returns the
// canary if the member's instance of the server keeps running.
func (g *gateway) serves(late bool, reduce func()) string {
	dev, token := g.member("dev", "developer"), filepath.Base(g.Dir)
	g.file("server.py", server)
	g.palyra("mcp", "add", "local", "--workspace", "default", "--", "python3", "/workspace/server.py", token)
	before := inSandbox("python3", token)
	if r := g.palyra("--credentials", dev, "call", "local/echo"); !strings.Contains(r.Out, "called") {
		return fmt.Sprint("the server is not called: ", r)
	}
	if n := inSandbox("python3", token); n <= before {
		return fmt.Sprintf("%d instances after %d", n, before)
	}
	if late {
		reduce()
		if must.Wait(func() bool { return inSandbox("python3", token) <= before }) {
			return ""
		}
	}
	return canary
}
