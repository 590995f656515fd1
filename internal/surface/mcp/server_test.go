package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

func each(t *testing.T, test func(t *testing.T, revision string)) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) { t.Parallel(); test(t, revision) })
	}
}

func (c *client) names() []string {
	c.w.t.Helper()
	r := must.Get(c.ListTools(c.w.t.Context(), nil))(c.w.t)
	var names []string
	for _, one := range r.Tools {
		names = append(names, one.Name)
	}
	return names
}

func TestListAndCall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		w.read.Work = gatewaytest.Reports(`{"content":"hello"}`)
		c := w.connect(clientConfig{revision: revision})
		if got := strings.Join(c.names(), " "); got != "fs_read http_fetch process_run" {
			t.Errorf("listed %s", got)
		}
		if got := c.InitializeResult().ProtocolVersion; got != revision {
			t.Errorf("speaks %s", got)
		}
		m := c.call("fs_read", map[string]any{"path": "a"})
		if m.err != nil || m.IsError || m.text() != `{"content":"hello"}`+"\n" {
			t.Fatalf("%+v %v", m.CallToolResult, m.err)
		}
		if got, _ := json.Marshal(m.StructuredContent); string(got) != `{"content":"hello"}` {
			t.Errorf("structured %s", got)
		}
		if a := m.call()["attestation_id"]; a == "" {
			t.Errorf("no attestation: %v", m.Meta)
		}
		past := must.Get(w.PastCall(t.Context(), m.call()["proposal_id"]))(t)
		if p := past.Proposed; p.Surface != access.SurfaceMCP || past.Session == "" || p.Tool != "fs.read" {
			t.Errorf("journaled %+v in session %s", p, past.Session)
		}
		if revision < "2026" != strings.Contains(past.Session, ".mcp-") {
			t.Errorf("session %s", past.Session)
		}
	})
}

func TestInvalidInputAndUnknownTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.options.Policies = `@id("no") forbid(principal, action == Action::"tool.execute/http.fetch", resource);`
		w.more = append(w.more, gatewaytest.NewProbe(tool.Descriptor{
			Name: "claude-code/Bash", Executor: tool.External, Capabilities: []tool.Capability{tool.ProcessExec}, InputSchema: json.RawMessage(`{"type":"object"}`),
		}))
	})
	c := w.connect(clientConfig{revision: "2025-11-25"})
	if m := c.call("fs_read", map[string]any{"pth": "a"}); m.err != nil || !m.IsError || m.call()["reason"] != "INVALID_INPUT" || !strings.Contains(m.text(), "Next: ") {
		t.Errorf("bad input: %s %v", m.text(), m.err)
	}
	if got := strings.Join(c.names(), " "); got != "fs_read process_run" {
		t.Errorf("listed %s", got)
	}
	// Forbidden tools, tools that the agent runs itself, and unknown tools get the same error.
	for _, name := range []string{"http_fetch", "claude-code_Bash", "claude-code/Bash", "nothing", "fs.read"} {
		m := c.call(name, map[string]any{"url": "https://example.com"})
		if m.err == nil || !strings.HasSuffix(m.err.Error(), "unknown tool: "+name) {
			t.Errorf("%s: %s %v", name, m.text(), m.err)
		}
	}
	w.fetch.Ran(t, 0)
	if list, _, err := w.PastCalls(t.Context(), toolcallFilter); err != nil || len(list) != 6 {
		t.Errorf("%d calls are journaled, %v", len(list), err)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		for name, allow := range map[string]bool{"allow": true, "deny": false} {
			w := newWorld(t)
			c := w.connect(clientConfig{revision: revision})
			ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
			defer cancel()
			done := c.begin(ctx, "process_run", make1, mcp.Meta{"progressToken": "p1", "claudecode/toolUseId": "toolu_1"})
			a := w.pending(1)[0]
			if p := <-c.progress; p.ProgressToken != "p1" || !strings.Contains(p.Message, a.ID) {
				t.Errorf("%s: progress %+v", name, p)
			}
			w.vote(a, allow)
			m := <-done
			if m.err != nil || m.IsError == allow || m.call()["approval_id"] != a.ID {
				t.Fatalf("%s: %s %v", name, m.text(), m.err)
			}
			if !allow && (m.call()["reason"] != "APPROVAL_DENIED" || !strings.Contains(m.text(), "not today") || m.call()["outcome"] != "denied") {
				t.Errorf("denied with %s %v", m.text(), m.call())
			}
			past := must.Get(w.PastCall(t.Context(), m.call()["proposal_id"]))(t)
			if past.Proposed.CallID != "toolu_1" {
				t.Errorf("the agent's id is %q", past.Proposed.CallID)
			}
			w.run.Ran(t, map[bool]int32{true: 1}[allow])
		}
	})
}

// A client with a short timeout gets an answer before it, and can resume the same call.
func TestShortLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		c := w.connect(clientConfig{revision: revision, headers: http.Header{"Palyra-Call-Limit": {"300ms"}}})
		// On a busy machine the limit may end before an approval was requested.
		again := func(while func(made) bool) made {
			m := c.call("process_run", make1)
			for m.err == nil && m.call()["reason"] == "STILL_WAITING" && while(m) {
				m = c.call("process_run", make1)
			}
			return m
		}
		first := again(func(m made) bool { return m.call()["approval_id"] == "" })
		a := w.pending(1)[0]
		if got := first.call(); first.err != nil || !first.IsError || got["reason"] != "STILL_WAITING" || got["approval_id"] != a.ID || !strings.Contains(first.text(), "Repeat the identical call") {
			t.Fatalf("%s %v %v", first.text(), got, first.err)
		}
		w.vote(a, true)
		if m := again(func(made) bool { return true }); m.err != nil || m.IsError || m.call()["proposal_id"] != first.call()["proposal_id"] {
			t.Errorf("again: %s %v", m.text(), m.err)
		}
		w.run.Ran(t, 1)
	})
}

func TestLimitsOfClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.limits["short-client"] = 300 * time.Millisecond })
	c := w.connect(clientConfig{revision: "2025-06-18", name: "short-client"})
	if m := c.call("process_run", make1); m.call()["reason"] != "STILL_WAITING" {
		t.Errorf("%s %v", m.text(), m.err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		began := make(chan struct{})
		stopped := make(chan struct{})
		w.read.Work = func(ctx context.Context, _ tool.Call) tool.Report {
			close(began)
			<-ctx.Done()
			close(stopped)
			return gatewaytest.Succeeded(`{}`)
		}
		c := w.connect(clientConfig{revision: revision})
		ctx, cancel := context.WithCancel(t.Context())
		done := c.begin(ctx, "fs_read", map[string]any{"path": "a"}, nil)
		<-began
		cancel()
		<-stopped
		<-done
		// A cancelled call that waits for an approval cancels the approval.
		ctx, cancel = context.WithCancel(t.Context())
		done = c.begin(ctx, "process_run", make1, nil)
		a := w.pending(1)[0]
		cancel()
		<-done
		w.settled(a.ID, approval.Cancelled)
	})
}

// settled waits until an approval is in a state.
func (w *world) settled(id string, state approval.State) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), must.Patience)
	defer cancel()
	err := w.Desk.Records.Watch(ctx, 1, nil, func(approval.Record) error {
		if now, err := w.Desk.Records.Get(ctx, id); err != nil || now.State == state {
			return errEnough
		}
		return nil
	})
	if now := must.Get(w.Desk.Records.Get(w.t.Context(), id))(w.t); now.State != state {
		w.t.Fatalf("approval %s is %s: %v", id, now.State, err)
	}
}

func TestToolsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect(clientConfig{revision: "2025-11-25"})
	c.names()
	w.reload(`@id("some") forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.args has timeout_ms };`)
	w.reload(`@id("no") forbid(principal, action == Action::"tool.execute/process.run", resource);`)
	must.Receive(t, "the client is told", c.changed)
	if got := strings.Join(c.names(), " "); got != "fs_read http_fetch" {
		t.Errorf("listed %s", got)
	}
}

func TestSessionsBelongToTheirCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := gatewaytest.Agent
	other.DeviceID = "01JNA3Q0G0DEV1CE0000000009"
	w.callers["other"] = other
	c := w.connect(clientConfig{revision: "2025-11-25"})
	post := func(as string) int {
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(body)))(t)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Session-Id": {c.ID()}, "Mcp-Protocol-Version": {"2025-11-25"}, who: {as}}
		res := must.Get(http.DefaultClient.Do(r))(t)
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode
	}
	if got := post("other"); got != http.StatusForbidden {
		t.Errorf("another credential in the session: %d", got)
	}
	if got := post(""); got != http.StatusOK { // control
		t.Errorf("its own: %d", got)
	}
	must.Do(t, c.Close())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ended) != 1 || !strings.HasSuffix(w.ended[0], ".mcp-"+c.ID()) {
		t.Errorf("ended %v", w.ended)
	}
}

// TestMessagesAreReadExactly: a client's message is refused if it has a second spelling of a
// key that is read, or a key twice. Controls: a second spelling in a part that is not read.
func TestMessagesAreReadExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}%s}%s}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}%s}}`
	for body, refused := range map[string]bool{
		fmt.Sprintf(begin, ``, ``):                                                           false,
		fmt.Sprintf(begin, ``, `,"METHOD":"ping"`):                                           true,
		fmt.Sprintf(begin, ``, `,"method":"ping"`):                                           true,
		fmt.Sprintf(begin, `,"Capabilities":{"sampling":{}}`, ``):                            true,
		fmt.Sprintf(begin, `,"_meta":{"x":1,"X":2,"progressToken":1}`, ``):                   false,
		fmt.Sprintf(begin, `,"_meta":{"progressToken":1,"ProgressToken":2}`, ``):             true,
		fmt.Sprintf(begin, `,"other":1,"OTHER":2`, ``):                                       false,
		fmt.Sprintf(call, `,"NAME":"fs.write"`):                                              true,
		fmt.Sprintf(call, `,"Arguments":{"text":"b"}`):                                       true,
		fmt.Sprintf(call, `,"_META":{}`):                                                     true,
		fmt.Sprintf(call, `,"_meta":{"CallId":"1"}`):                                         true,
		fmt.Sprintf(call, `,"_meta":{"palyra.dev/Requester-Reason":"r"}`):                    true,
		fmt.Sprintf(call, `,"inputResponses":{"a":{"action":"decline","ACTION":"accept"}}`):  true,
		fmt.Sprintf(call, `,"inputResponses":{"a":{"action":"decline"}},"requeststate":"s"`): true,
		`{"jsonrpc":"2.0","id":1,"result":{"action":"decline","Action":"accept"}}`:           true,
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(body)))(t)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		res := must.Get(http.DefaultClient.Do(r))(t)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := strings.Contains(string(text), "is ambiguous"); got != refused || !refused && res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
	var control struct {
		Method string `json:"method"`
	}
	if err := json.Unmarshal([]byte(fmt.Sprintf(begin, ``, `,"METHOD":"ping"`)), &control); err != nil || control.Method != "ping" {
		t.Errorf("the control: encoding/json reads %q, %v", control.Method, err)
	}
}

func TestRefusesBatchesAndFloods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, want := range map[string]int{
		` [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`:                         http.StatusTooManyRequests,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":"` + strings.Repeat("a", 5<<20) + `"}}}`: http.StatusRequestEntityTooLarge,
		`{"jsonrpc":"2.0","id":1,"method":`: http.StatusBadRequest,
		``:                                  http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`: http.StatusOK,
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(body)))(t)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		res := must.Get(http.DefaultClient.Do(r))(t)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%.40s: %d %s", body, res.StatusCode, text)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func() int {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)))(t)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		res := must.Get(http.DefaultClient.Do(r))(t)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	for range 64 {
		if got := begin(); got != http.StatusOK {
			t.Fatalf("refused with %d", got)
		}
	}
	if got := begin(); got != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", got)
	}
}

// Two upstream tools with the same name get no name. A tool of the gateway keeps its name.
func TestNamesThatCollide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		for _, name := range []string{"fs/read", "a/b_c", "a_b/c", "a/d"} {
			w.more = append(w.more, gatewaytest.NewProbe(tool.Descriptor{
				Name: name, Executor: tool.MCPUpstream, Capabilities: []tool.Capability{tool.Network}, InputSchema: json.RawMessage(`{"type":"object"}`),
			}))
		}
	})
	c := w.connect(clientConfig{revision: "2026-07-28"})
	if got := strings.Join(c.names(), " "); got != "a_d fs_read http_fetch process_run" {
		t.Errorf("listed %s", got)
	}
	if m := c.call("fs_read", map[string]any{"path": "a"}); m.err != nil || m.IsError {
		t.Errorf("%s %v", m.text(), m.err)
	}
	w.read.Ran(t, 1)
	if m := c.call("a_b_c", map[string]any{}); m.err == nil {
		t.Error("a name of two tools was called")
	}
	// Names are assigned again when the tools change.
	var one []tool.Runnable
	for _, p := range w.more {
		if d := p.Descriptor(); d.Name == "a/b_c" {
			one = append(one, p)
		}
	}
	must.Do(t, w.Router.SetTools("", one))
	if got := strings.Join(w.connect(clientConfig{revision: "2025-11-25"}).names(), " "); got != "a_b_c" {
		t.Errorf("of the tools that are left, listed %s", got)
	}
}
