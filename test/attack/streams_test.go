//go:build linux

package attack

import (
	"bufio"
	"io"
	"net/http"
	"strings"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// streamRows are attacks by callers who opened a stream while they had permission, and keep
// reading it.
func streamRows() []factRow {
	const forbidsTail = `@id("no-tail") @reason("closed") forbid(principal, action == Action::"journal.tail", resource);`
	return []factRow{
		{"GW2-18", "tail of the journal after a policy", "", "", func(g *gateway, late bool) string {
			return g.readAfterRevocation(late, func() { g.policy(forbidsTail) }, "journal", "tail", "-o", "ndjson")
		}},
		{"GW2-18", "tail of the journal after the loss of a role", "", "", func(g *gateway, late bool) string {
			return g.readAfterRevocation(late, g.demote, "journal", "tail", "-o", "ndjson")
		}},
		{"GW2-18", "watch of approvals after the loss of a role", "", "", func(g *gateway, late bool) string {
			return g.readAfterRevocation(late, g.demote, "approvals", "watch", "--notify=false", "-o", "ndjson")
		}},
		{"GW2-18", "messages of MCP after the end of a token", freeHere, freeHere, func(g *gateway, late bool) string {
			return g.entrances().listens(late)
		}},
	}
}

// demote removes the auditor role from eve, who remains a developer.
func (g *gateway) demote() {
	g.palyra("members", "roles", "eve", "--remove", "auditor", "--yes")
}

// readAfterRevocation has eve open a stream, revokes her permission, and returns the stream's
// output about a later call.
func (g *gateway) readAfterRevocation(late bool, end func(), stream ...string) string {
	g.T.Helper()
	eve := g.member("eve", "auditor", "developer")
	child := g.begin(append([]string{"--credentials", eve}, stream...)...)
	// asks requests approval for a call that writes a file, and waits until seen returns true.
	asks := func(file string, seen func() bool) {
		call := g.begin("call", "fs.write", "path="+file, "content=x")
		a, _ := call.Asked()
		must.Eventually(g.T, "the stream ends or has the call", func() (bool, string) { return seen(), child.Out.String() + child.Err.String() })
		g.answer(a, "--deny", "--reason", "no")
		call.wait()
	}
	has := func(file string) func() bool {
		return func() bool { return strings.Contains(child.Out.String(), file) || over(child.Child) }
	}
	asks("before.txt", has("before.txt"))
	if late {
		end()
	}
	asks(canary, has(canary))
	return child.Out.String() + child.Err.String()
}

// over reports whether a process has exited.
func over(c *process.Child) bool {
	select {
	case <-c.Ended:
		return true
	default:
		return false
	}
}

// listens has the agent open the message stream of an MCP session, revokes its token, and
// returns the canary if a message arrives later.
func (e *entrances) listens(late bool) string {
	e.T.Helper()
	request := func(method, session, body string) *http.Response {
		r := must.Get(http.NewRequestWithContext(e.T.Context(), method, e.address+"/mcp", strings.NewReader(body)))(e.T)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		return must.Get(e.agent.Do(r))(e.T)
	}
	first := request(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"attacker","version":"1"}}}`)
	must.Get(io.Copy(io.Discard, first.Body))(e.T)
	session := first.Header.Get("Mcp-Session-Id")
	_ = request(http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).Body.Close()
	stream := request(http.MethodGet, session, "")
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		return stream.Status
	}
	if late {
		if r := e.palyra("tokens", "revoke", e.token, "--yes"); r.Code != 0 {
			e.T.Fatal(r.Err)
		}
	}
	e.upstream() // this changes the list of tools
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "list_changed") {
			return canary
		}
	}
	return "the stream ended"
}
