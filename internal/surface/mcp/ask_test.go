package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// A client that supports URL elicitation gets the approval's URL, and its answer is not an
// approval.
func TestElicitedURL(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		for _, action := range []string{"accept", "decline", "cancel"} {
			w := newWorld(t)
			c := w.connect(clientConfig{revision: revision, url: true})
			c.answer = func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: action} }
			done := c.begin(t.Context(), "process_run", make1, nil)
			shown := <-c.elicited
			a := w.pending(1)[0]
			if shown.Mode != "url" || shown.URL != w.http.URL+"/approvals/"+a.ID || strings.Contains(shown.Message, "make") {
				t.Errorf("%s: shown %+v", action, shown)
			}
			select {
			case m := <-done:
				t.Fatalf("%s: the call ended: %s %v", action, m.text(), m.err)
			case <-time.After(50 * time.Millisecond):
			}
			w.run.Ran(t, 0)
			w.vote(a, true)
			if m := <-done; m.err != nil || m.IsError || m.call()["approval_id"] != a.ID {
				t.Errorf("%s: %s %v", action, m.text(), m.err)
			}
			w.run.Ran(t, 1)
			select {
			case again := <-c.elicited:
				t.Errorf("%s: asked again: %+v", action, again)
			default:
			}
		}
	})
}

// An elicitation ends at the client when its approval is decided elsewhere.
func TestElicitationEndsWithItsApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect(clientConfig{revision: "2025-11-25", url: true})
	release := make(chan struct{})
	c.answer = func(*mcp.ElicitParams) *mcp.ElicitResult { <-release; return &mcp.ElicitResult{Action: "accept"} }
	defer close(release)
	done := c.begin(t.Context(), "process_run", make1, nil)
	<-c.elicited
	w.vote(w.pending(1)[0], true)
	if m := <-done; m.err != nil || m.IsError {
		t.Errorf("%s %v", m.text(), m.err)
	}
}

// raw posts one message in the revision without sessions.
func (w *world) raw(as, method string, params map[string]any, capabilities map[string]any) (int, map[string]any) {
	w.t.Helper()
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities,
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "raw", "version": "1"},
	}
	body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(w.t)
	r := must.Get(http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(string(body))))(w.t)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, who: {as},
	}
	for _, key := range []string{"name", "taskId"} {
		if name, ok := params[key].(string); ok {
			r.Header.Set("Mcp-Name", name)
		}
	}
	res := must.Get(http.DefaultClient.Do(r))(w.t)
	defer func() { _ = res.Body.Close() }()
	text := string(must.Get(io.ReadAll(res.Body))(w.t))
	for line := range strings.SplitSeq(text, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			text = data
		}
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		w.t.Fatalf("%d %q: %v", res.StatusCode, text, err)
	}
	return res.StatusCode, answer
}

func resultIn(answer map[string]any) map[string]any {
	r, _ := answer["result"].(map[string]any)
	return r
}

func errorIn(answer map[string]any) string {
	e, _ := answer["error"].(map[string]any)
	message, _ := e["message"].(string)
	return message
}

var urls = map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}

func callParams(state string) map[string]any {
	p := map[string]any{"name": "process_run", "arguments": make1}
	if state != "" {
		p["requestState"] = state
		p["inputResponses"] = map[string]any{"palyra.approval": map[string]any{"action": "accept"}}
	}
	return p
}

// A request state is valid once, for its recipient and the same call.
func TestRequestState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := gatewaytest.Agent
	other.DeviceID = "01JNA3Q0G0DEV1CE0000000009"
	w.callers["other"] = other
	_, answer := w.raw("", "tools/call", callParams(""), urls)
	r := resultIn(answer)
	state, _ := r["requestState"].(string)
	if r["resultType"] != "input_required" || state == "" || r["inputRequests"].(map[string]any)["palyra.approval"].(map[string]any)["method"] != "elicitation/create" {
		t.Fatalf("answered %v", answer)
	}
	changed := callParams(state)
	changed["arguments"] = map[string]any{"argv": []string{"rm"}}
	for name, try := range map[string]struct {
		as     string
		params map[string]any
		why    string
	}{
		"another caller": {"other", callParams(state), "another caller"},
		"another call":   {"", changed, "another call"},
		"changed":        {"", callParams(state[:len(state)-4] + "AAAA"), "it was modified"},
		"nonsense":       {"", callParams("!"), "it was modified"},
	} {
		status, answer := w.raw(try.as, "tools/call", try.params, urls)
		if got := errorIn(answer); status != http.StatusBadRequest || !strings.Contains(got, try.why) {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	a := w.pending(1)[0]
	w.vote(a, true)
	_, answer = w.raw("", "tools/call", callParams(state), urls)
	if r := resultIn(answer); r["resultType"] != "complete" || r["isError"] == true {
		t.Errorf("the repeated call: %v", answer)
	}
	w.run.Ran(t, 1)
	if _, answer = w.raw("", "tools/call", callParams(state), urls); !strings.Contains(errorIn(answer), "already used") {
		t.Errorf("used twice: %v", answer)
	}
	w.run.Ran(t, 1)
}

func TestApprovalPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]int{
		"/approvals/01JNA3Q0G0DEV1CE0000000009": 200, "/approvals/x": 404, "/approvals/": 404, "/approvals/01JNA3Q0G0DEV1CE0000000009/x": 404,
	} {
		r := must.Get(http.Get(w.http.URL + path))(t)
		text := string(must.Get(io.ReadAll(r.Body))(t))
		_ = r.Body.Close()
		if r.StatusCode != want || want == 200 && !strings.Contains(text, "palyra approve 01JNA3Q0G0DEV1CE0000000009") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
	}
}

// TestUpstreamElicits: an elicitation of an upstream server reaches a client that declared the
// capability, and its answer reaches the server.
func TestUpstreamElicits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		answers := make(chan string, 4)
		w := newWorld(t, func(w *world) {
			asks := gatewaytest.NewProbe(tool.Descriptor{
				Name: "srv/ask", Executor: tool.MCPUpstream, ReadOnly: true, Capabilities: []tool.Capability{tool.FilesystemRead}, InputSchema: json.RawMessage(`{"type":"object"}`),
			})
			asks.Work = func(ctx context.Context, c tool.Call) tool.Report {
				r := gatewaytest.Succeeded(`{"content":[{"type":"text","text":"from upstream"}],"_meta":{"vendor/x":1}}`)
				r.Executor.Name = tool.MCPUpstream
				if c.Peer.Ask == nil {
					answers <- "none"
					return r
				}
				c.Peer.Progress(tool.Progress{Done: 3, Total: 4, Message: "three"})
				got, err := c.Peer.Ask(ctx, map[string]tool.Request{"which": {Method: "elicitation/create", Params: json.RawMessage(
					`{"mode":"form","message":"srv asks: which?","requestedSchema":{"type":"object","properties":{"which":{"type":"string"}}}}`)}})
				if err != nil {
					answers <- err.Error()
					return r
				}
				var e mcp.ElicitResult
				if err := json.Unmarshal(got["which"], &e); err != nil {
					answers <- err.Error()
					return r
				}
				answers <- e.Action + " " + e.Content["which"].(string)
				return r
			}
			w.more = append(w.more, asks)
			w.options.Policies = `@id("ask") @waives("approval: the test says so") permit(principal, action == Action::"tool.execute/srv/ask", resource);`
		})
		c := w.connect(clientConfig{revision: revision, url: true})
		c.answer = func(*mcp.ElicitParams) *mcp.ElicitResult {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"which": "this"}}
		}
		done := c.begin(t.Context(), "srv_ask", map[string]any{}, mcp.Meta{"progressToken": 1})
		m := <-done
		if m.err != nil || m.IsError || m.text() != "from upstream\n" || m.Meta["vendor/x"] == nil || m.call()["attestation_id"] == "" {
			t.Fatalf("%s %v %v", m.text(), m.Meta, m.err)
		}
		if got := <-answers; got != "accept this" {
			t.Errorf("the server got %q", got)
		}
		if shown := <-c.elicited; shown.Message != "srv asks: which?" {
			t.Errorf("shown %+v", shown)
		}
		if p := <-c.progress; p.Progress != 3 || p.Total != 4 || p.Message != "three" {
			t.Errorf("progress %+v", p)
		}
		quiet := w.connect(clientConfig{revision: revision})
		if m := quiet.call("srv_ask", map[string]any{}); m.err != nil || m.IsError {
			t.Errorf("%s %v", m.text(), m.err)
		}
		if got := <-answers; got != "none" {
			t.Errorf("a client that takes no questions got %q", got)
		}
	})
}
