//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/surface/hook"
	"palyra/test/process"
)

// TestHookAndCallShareAnApproval: an agent's hook announces a tool use, and the call then
// reaches the gateway's MCP server. It is approved once, and raises no alarm about a missing
// call. Controls: the same call without the announcement, and a call with other arguments, each
// need their own approval. An announcement without a call raises an alarm.
func TestHookAndCallShareAnApproval(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	made := process.Finish(t, g.local().command("tokens", "create", "hook", "--for", "agent:coder", "--scope", "hook.report", "-o", "json"))
	made.Want(t, 0)
	token := decode[struct {
		Text string `json:"text"`
	}](t, made.Out).Text
	hooked := func(event, id, file string) string {
		t.Helper()
		m := map[string]any{
			"session_id": "s1", "cwd": g.Workspace, "hook_event_name": event, "tool_use_id": id,
			"tool_name": "mcp__palyra__fs_write", "tool_input": map[string]any{"path": file, "content": "new\n"},
		}
		if event == "PostToolUse" {
			m["tool_response"] = "written"
		}
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(g.url, "/mcp")+"/hooks/v1/claude-code", strings.NewReader(string(must.Get(json.Marshal(m))(t)))))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		res := must.Get(http.DefaultClient.Do(r))(t)
		defer res.Body.Close()
		if body := must.Get(io.ReadAll(res.Body))(t); res.StatusCode != http.StatusOK {
			t.Errorf("%s of %s: %s %s", event, id, res.Status, body)
		}
		return res.Header.Get(hook.DecisionHeader)
	}
	announced := func(id, file string) {
		t.Helper()
		decided := make(chan string, 1)
		go func() { decided <- hooked("PreToolUse", id, file) }()
		g.answer(true)
		if d := <-decided; d != "allow" {
			t.Errorf("the announcement of %s: %q", id, d)
		}
	}
	agent := g.goAgent(t, "", g.overHTTP())
	begin := func(id, file string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			r, err := agent.session.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{
				Meta: mcp.Meta{"claudecode/toolUseId": id}, Name: "fs_write", Arguments: map[string]any{"path": file, "content": "new\n"},
			})
			if err != nil {
				done <- outcome{err: err.Error()}
				return
			}
			done <- outcomeOf(must.Get(json.Marshal(r))(t))
		}()
		return done
	}
	count := func(code string) int {
		t.Helper()
		return strings.Count(g.local().ok("journal", "list", "--code", code, "-o", "ndjson"), "\n")
	}

	announced("joined", "joined.txt")
	if o := <-begin("joined", "joined.txt"); o.err != "" || o.isError || g.Read("joined.txt") != "new\n" {
		t.Fatalf("the call that was announced: %+v", o)
	}
	hooked("PostToolUse", "joined", "joined.txt")
	if asks, alarms := count("PAL-A100"), count("PAL-H103"); asks != 1 || alarms != 0 {
		t.Errorf("%d asks and %d alarms for one tool use", asks, alarms)
	}

	announced("other", "announced.txt")
	for _, c := range []struct{ id, file string }{{"unannounced", "unannounced.txt"}, {"other", "other.txt"}} {
		done := begin(c.id, c.file)
		g.answer(false)
		if o := <-done; !o.isError || g.Read(c.file) != "" {
			t.Errorf("%s: %+v", c.id, o)
		}
	}
	hooked("PostToolUse", "other", "announced.txt")
	if asks, alarms := count("PAL-A100"), count("PAL-H103"); asks != 4 || alarms != 1 {
		t.Errorf("the controls: %d asks and %d alarms", asks, alarms)
	}
}
