package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/gateway/gatewaytest"
	mcpserver "palyra/internal/surface/mcp"
)

// lets permits calls of the server docs without an approval.
const lets = `@id("docs") @waives("approval: the test says so") permit(principal, action in Action::"tool.execute", resource in Server::"docs");`

// docs adds the upstream server docs to a world, in the form that the gateway gives a server.
// says has the results of its tools by name.
func docs(says map[string]string) func(*world) {
	return func(w *world) {
		for name, result := range says {
			p := gatewaytest.NewProbe(tool.Descriptor{
				Name: "docs/" + name, Executor: tool.MCPUpstream, ReadOnly: true, Capabilities: []tool.Capability{tool.FilesystemRead}, InputSchema: json.RawMessage(`{"type":"object"}`),
			})
			p.Work = func(_ context.Context, c tool.Call) tool.Report {
				r := gatewaytest.Succeeded(strings.ReplaceAll(result, "INPUT", strings.ReplaceAll(string(c.Proposal.Input), `"`, `'`)))
				if strings.HasPrefix(result, `{"error"`) {
					r.Outcome, r.Reason, r.Message = tool.Failed, "TOOL_FAILED", "it refused"
				}
				r.Executor.Name = tool.MCPUpstream
				return r
			}
			w.more = append(w.more, p)
		}
		w.options.Policies = lets
		w.servers = []declared.State{{Kept: declared.Kept{Server: declared.Server{Name: "docs"}, Approved: declared.Sight{Definitions: []declared.Definition{
			{Kind: declared.KindPrompt, Name: "re.view", Text: json.RawMessage(`{"name":"re.view","description":"Re\u202eview.","arguments":[{"name":"of"}]}`)},
			{Kind: declared.KindPrompt, Name: "re-view2", Text: json.RawMessage(`{"name":"re-view2"}`)},
			{Kind: declared.KindTemplate, Name: "doc://{id}", Text: json.RawMessage(`{"name":"t","uriTemplate":"doc://{id}"}`)},
		}}}}}
	}
}

var all = map[string]string{
	declared.GetPrompt:     `{"messages":[{"role":"user","content":{"type":"text","text":"INPUT"}},{"role":"user","content":{"type":"resource","resource":{"uri":"doc://b","text":"b"}}}]}`,
	declared.ListResources: `{"resources":[{"uri":"doc://a","name":"a","description":"The first."}]}`,
	declared.ReadResource:  `{"contents":[{"uri":"doc://a","text":"INPUT"}]}`,
	declared.Complete:      `{"completion":{"values":["INPUT"]}}`,
	declared.Subscribe:     `{}`,
	"link":                 `{"content":[{"type":"resource_link","uri":"doc://c","name":"c"},{"type":"text","text":"doc://c"}]}`,
	declared.Elicit:        `{}`, declared.Sample: `{}`, declared.ListRoots: `{}`,
}

// TestPromptsAndResources: prompts, resources, templates and completions of upstream servers are
// available in MCP's own methods, under names and URIs that identify the server, and every call is
// recorded.
func TestPromptsAndResources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t, docs(all))
		c := w.connect(clientConfig{revision: revision})
		if got := strings.Join(c.names(), " "); got != "docs_link docs_mcp_get_prompt docs_mcp_list_resources docs_mcp_read_resource fs_read http_fetch process_run" {
			t.Errorf("tools %s", got)
		}
		prompts := must.Get(c.ListPrompts(t.Context(), nil))(t).Prompts
		if len(prompts) != 2 || prompts[0].Name != "docs_re_view" || strings.Contains(prompts[0].Description, "\u202e") || !strings.HasPrefix(prompts[0].Description, "Of the upstream server docs") {
			t.Fatalf("prompts %+v", prompts)
		}
		p := must.Get(c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "docs_re_view", Arguments: map[string]string{"of": "x"}}))(t)
		if got := p.Messages[0].Content.(*mcp.TextContent).Text; got != `{'arguments':{'of':'x'},'name':'re.view'}` || p.Messages[1].Content.(*mcp.EmbeddedResource).Resource.URI != "palyra:docs:doc://b" {
			t.Errorf("prompt %s %+v", got, p.Messages[1].Content)
		}
		if made := p.Meta["palyra.dev/call"].(map[string]any); made["attestation_id"] == "" || made["outcome"] != "succeeded" {
			t.Errorf("recorded %v", made)
		}
		list := must.Get(c.ListResources(t.Context(), nil))(t).Resources
		if len(list) != 1 || list[0].URI != "palyra:docs:doc://a" {
			t.Fatalf("resources %+v", list)
		}
		r := must.Get(c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list[0].URI}))(t)
		if r.Contents[0].URI != list[0].URI || r.Contents[0].Text != `{'uri':'doc://a'}` {
			t.Errorf("read %+v", r.Contents[0])
		}
		templates := must.Get(c.ListResourceTemplates(t.Context(), nil))(t).ResourceTemplates
		if len(templates) != 1 || templates[0].URITemplate != "palyra:docs:doc://{id}" {
			t.Errorf("templates %+v", templates)
		}
		for _, ref := range []*mcp.CompleteReference{{Type: "ref/prompt", Name: "docs_re_view"}, {Type: "ref/resource", URI: templates[0].URITemplate}} {
			got := must.Get(c.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "of", Value: "x"}}))(t).Completion.Values
			if len(got) != 1 || !strings.Contains(got[0], `'re.view'`) && !strings.Contains(got[0], `'doc://{id}'`) {
				t.Errorf("completed %v", got)
			}
		}
		m := c.call("docs_link", map[string]any{})
		if m.err != nil || m.Content[0].(*mcp.ResourceLink).URI != "palyra:docs:doc://c" || m.Content[1].(*mcp.TextContent).Text != "doc://c" {
			t.Errorf("link %+v %v", m.CallToolResult, m.err)
		}
		if past, _, err := w.PastCalls(t.Context(), toolcallFilter); err != nil || len(past) != 6 {
			t.Errorf("%d calls are journaled, %v", len(past), err)
		}
		for _, name := range []string{"docs_mcp_elicit", "docs_mcp_sample", "docs_mcp_list_roots", "docs_mcp_subscribe", "docs_mcp_complete"} {
			if m := c.call(name, map[string]any{}); m.err == nil {
				t.Errorf("%s was called", name)
			}
		}
	})
}

// TestPromptsAndResourcesUnderPolicy: a forbidden item is neither listed nor available, and one
// that requires approval waits for it. Lists and completions require none. Control:
// TestPromptsAndResources.
func TestPromptsAndResourcesUnderPolicy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t, docs(all), func(w *world) {
			w.options.Policies = `@id("no") forbid(principal, action in Action::"tool.execute", resource in Server::"docs");`
		})
		c := w.connect(clientConfig{revision: revision})
		if p, r, l := must.Get(c.ListPrompts(t.Context(), nil))(t), must.Get(c.ListResources(t.Context(), nil))(t), must.Get(c.ListResourceTemplates(t.Context(), nil))(t); len(p.Prompts)+len(r.Resources)+len(l.ResourceTemplates) != 0 {
			t.Errorf("listed %v %v %v", p.Prompts, r.Resources, l.ResourceTemplates)
		}
		_, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "docs_re_view"})
		_, other := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "docs_nothing"})
		if code(err) != jsonrpc.CodeInvalidParams || code(other) != code(err) {
			t.Errorf("prompt: %v, %v", err, other)
		}
		_, err = c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "palyra:docs:doc://a"})
		_, other = c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a"})
		if err == nil || code(err) != code(other) {
			t.Errorf("resource: %v, %v", err, other)
		}
		if _, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "docs_re_view"}, Argument: mcp.CompleteParamsArgument{Name: "a"}}); err != nil {
			t.Errorf("complete: %v", err)
		}
		if list, _, err := w.PastCalls(t.Context(), toolcallFilter); err != nil || len(list) != 0 {
			t.Errorf("%d calls are journaled, %v", len(list), err)
		}
	})
}

func TestPromptsAndResourcesAsk(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t, docs(all), func(w *world) {
			w.options.Policies = `@id("ask") forbid(principal, action in Action::"tool.execute", resource in Server::"docs") unless { context.approval.granted };` + lets
		})
		c := w.connect(clientConfig{revision: revision})
		if r := must.Get(c.ListResources(t.Context(), nil))(t); len(r.Resources) != 0 {
			t.Errorf("listed %v", r.Resources)
		}
		for _, allow := range []bool{true, false} {
			done := make(chan error, 1)
			go func() {
				_, err := c.ReadResource(context.WithoutCancel(t.Context()), &mcp.ReadResourceParams{URI: "palyra:docs:doc://a"})
				done <- err
			}()
			a := w.pending(1)[0]
			if a.Binding.Tool != "docs/mcp.read_resource" {
				t.Errorf("asked about %s", a.Binding.Tool)
			}
			w.vote(a, allow)
			err := <-done
			if allow != (err == nil) || !allow && (code(err) != -32000 || !strings.Contains(err.Error(), "APPROVAL_DENIED")) {
				t.Errorf("allowed %v: %v", allow, err)
			}
		}
	})
}

func code(err error) int64 {
	var fault *jsonrpc.Error
	if errors.As(err, &fault) {
		return fault.Code
	}
	return 0
}

// TestErrorsOfServers: a client gets a server's errors that are about its call, and not those
// about the protocol.
func TestErrorsOfServers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		fault := func(code string) string {
			return `{"error":{"message":"m","rpc":{"code":` + code + `,"message":"theirs","data":{"uri":"doc://x","requiredCapabilities":{"sampling":{}}}}}}`
		}
		w := newWorld(t, docs(map[string]string{"missing": fault("-32021"), "own": fault("7"), "version": fault("-32022"), "url": fault("-32042"), declared.ReadResource: fault("-32002")}))
		c := w.connect(clientConfig{revision: revision})
		for name, want := range map[string]int64{"docs_missing": -32021, "docs_own": 7, "docs_version": 0, "docs_url": 0} {
			m := c.call(name, map[string]any{})
			if got := code(m.err); got != want || want == 0 && !m.IsError {
				t.Errorf("%s: %v", name, m.err)
			}
		}
		_, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "palyra:docs:doc://x"})
		var got *jsonrpc.Error
		if !errors.As(err, &got) || got.Code != -32002 || !strings.Contains(string(got.Data), `"palyra:docs:doc://x"`) {
			t.Errorf("resource: %v", err)
		}
	})
}

// TestSubscribe: a subscribed client gets the updates of its resource. The subscription at the
// server ends with the last client.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t, docs(all))
		c := w.connect(clientConfig{revision: revision})
		must.Do(t, c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "palyra:docs:doc://a"}))
		var watcher interface {
			Watches(string, access.Principal, string) bool
			ResourceUpdated(string, access.Principal, string)
		} = w.face.Clients
		owner := gatewaytest.Agent.Principal
		// In the newer revisions a subscription is asynchronous.
		must.Eventually(t, "the resource is watched", func() (bool, string) { return watcher.Watches("docs", owner, "doc://a"), "" })
		if watcher.Watches("docs", policytest.Bob, "") || watcher.Watches("other", owner, "") || !watcher.Watches("docs", access.Principal{}, "") {
			t.Error("others watch")
		}
		heard := func() string {
			for {
				watcher.ResourceUpdated("docs", policytest.Bob, "doc://a")
				watcher.ResourceUpdated("docs", owner, "doc://b")
				watcher.ResourceUpdated("docs", owner, "doc://a")
				select {
				case got := <-c.updated:
					return got
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		if got := heard(); got != "palyra:docs:doc://a" {
			t.Errorf("heard %s", got)
		}
		must.Do(t, c.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "palyra:docs:doc://a"}))
		must.Eventually(t, "the server is left", func() (bool, string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			left := strings.Join(w.left, ",")
			return left == "docs "+owner.String()+" doc://a", left
		})
		if watcher.Watches("docs", owner, "") {
			t.Error("it is still watched")
		}
		if revision >= "2026" {
			return
		}
		if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "palyra:other:doc://a"}); err == nil {
			t.Error("a resource of no server is watched")
		}
		must.Do(t, c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "palyra:docs:doc://a"}))
		must.Do(t, c.Close())
		must.Eventually(t, "the resource is no longer watched", func() (bool, string) { return !watcher.Watches("docs", owner, "doc://a"), "" })
	})
}

// TestSubscriptionsEndWithPolicy: a client gets no updates of a resource that new policies
// forbid it, and the subscription at the server ends. Permitted subscriptions continue.
func TestSubscriptionsEndWithPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, docs(all))
	c := w.connect(clientConfig{revision: "2025-06-18"})
	must.Do(t, c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "palyra:docs:doc://a"}))
	owner := gatewaytest.Agent.Principal
	watcher := w.face.Clients
	w.reload("") // control: other policies that permit it
	watcher.ResourceUpdated("docs", owner, "doc://a")
	if got := <-c.updated; got != "palyra:docs:doc://a" {
		t.Errorf("heard %s", got)
	}
	w.reload(`@id("no") forbid(principal, action in Action::"mcp.subscribe", resource in Server::"docs");`)
	must.Eventually(t, "the server is left", func() (bool, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		left := strings.Join(w.left, ",")
		return left == "docs "+owner.String()+" doc://a", left
	})
	if watcher.Watches("docs", owner, "") {
		t.Error("it is still watched")
	}
	watcher.ResourceUpdated("docs", owner, "doc://a")
	must.Do(t, c.Ping(t.Context(), nil)) // a later message
	select {
	case got := <-c.updated:
		t.Errorf("heard %s", got)
	default:
	}
}

// TestListsChange: clients are notified of changed prompts and resources.
func TestListsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, docs(all))
	c := w.connect(clientConfig{revision: "2025-11-25"})
	must.Get(c.ListPrompts(t.Context(), nil))(t)
	w.servers[0].Changes = []declared.Change{{Kind: declared.KindPrompt, Name: "re-view2"}}
	w.face.Changed()
	if got := <-c.updated; got != "prompts" {
		t.Errorf("told of %s", got)
	}
	if got := must.Get(c.ListPrompts(t.Context(), nil))(t).Prompts; len(got) != 1 || got[0].Name != "docs_re_view" {
		t.Errorf("a suspended prompt is listed: %+v", got)
	}
	for want, tell := range map[string]func(string, access.Principal){"resources": w.face.Clients.ResourcesChanged, "prompts": w.face.Clients.PromptsChanged} {
		tell("docs", policytest.Alice) // for another owner
		tell("docs", gatewaytest.Agent.Principal)
		if got := <-c.updated; got != want {
			t.Errorf("told of %s, want %s", got, want)
		}
	}
	w.face.Clients.ToolsChanged("docs", gatewaytest.Agent.Principal)
	<-c.changed
}

// TestUpstreamRequestsSampling: a server's requests of all kinds reach a client that declared
// the capabilities, with and without a session. The server's logs also reach it, from the
// client's log level upwards.
func TestUpstreamRequestsSampling(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		takes := make(chan tool.Takes, 4)
		w := newWorld(t, docs(all), func(w *world) {
			w.more[0].(*gatewaytest.Probe).Of.Name = "docs/ask"
			w.more[0].(*gatewaytest.Probe).Work = func(ctx context.Context, c tool.Call) tool.Report {
				r := gatewaytest.Succeeded(`{"content":[{"type":"text","text":"done"}]}`)
				r.Executor.Name = tool.MCPUpstream
				if takes <- c.Peer.Takes; c.Peer.Ask == nil {
					return r
				}
				for _, level := range []string{"debug", "warning"} {
					c.Peer.Log(tool.LogLine{Level: level, Data: json.RawMessage(`"line"`)})
				}
				for range 2 {
					got, err := c.Peer.Ask(ctx, map[string]tool.Request{
						"palyra.approval": {Method: "sampling/createMessage", Params: json.RawMessage(`{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"?"}}]}`)},
						"roots":           {Method: "roots/list", Params: json.RawMessage(`{}`)},
					})
					if err != nil || !strings.Contains(string(got["palyra.approval"]), "Paris") || !strings.Contains(string(got["roots"]), "file:///work") {
						r.Outcome, r.Reason, r.Message = tool.Failed, "TOOL_FAILED", "got "+string(got["palyra.approval"])+string(got["roots"])
					}
				}
				return r
			}
		})
		c := w.connect(clientConfig{revision: revision, model: true})
		meta := mcp.Meta{"io.modelcontextprotocol/logLevel": "info"}
		if revision < "2026" {
			must.Do(t, c.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
		}
		if m := <-c.begin(t.Context(), "docs_ask", map[string]any{}, meta); m.err != nil || m.IsError {
			t.Fatalf("%s %v", m.text(), m.err)
		}
		if got := <-takes; !got.Sampling || !got.Roots || got.Form {
			t.Errorf("takes %+v", got)
		}
		if got := <-c.logs; got != "warning" {
			t.Errorf("logged %s", got)
		}
		quiet := w.connect(clientConfig{revision: revision})
		if m := quiet.call("docs_ask", map[string]any{}); m.err != nil || m.IsError {
			t.Errorf("%s %v", m.text(), m.err)
		}
		if got := <-takes; got.Sampling || got.Form {
			t.Errorf("a client that declared nothing takes %+v", got)
		}
	})
}

// TestMarkedHeaders: a header that repeats an argument must match the body. Marks that cannot
// be checked are removed from the schema.
func TestMarkedHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, docs(map[string]string{"a": `{"content":[]}`, "b": `{"content":[]}`}), func(w *world) {
		for _, p := range w.more {
			p := p.(*gatewaytest.Probe)
			p.Of.InputSchema = json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}}}`)
			if p.Of.Name == "docs/b" {
				p.Of.InputSchema = json.RawMessage(`{"type":"object","properties":{"x":{"type":"object","x-mcp-header":"X"}}}`)
			}
		}
	})
	c := w.connect(clientConfig{revision: "2026-07-28"})
	r := must.Get(c.ListTools(t.Context(), nil))(t)
	a, b := must.Get(json.Marshal(r.Tools[0].InputSchema))(t), must.Get(json.Marshal(r.Tools[1].InputSchema))(t)
	if !strings.Contains(string(a), "x-mcp-header") || strings.Contains(string(b), "x-mcp-header") {
		t.Errorf("listed %s %s", a, b)
	}
	if m := c.call("docs_a", map[string]any{"x": "y"}); m.err != nil {
		t.Errorf("with its header: %v", m.err)
	}
	status, answer := w.raw("", "tools/call", map[string]any{"name": "docs_a", "arguments": map[string]any{"x": "y"}}, nil2)
	if status != http.StatusBadRequest || !strings.Contains(errorIn(answer), "Mcp-Param-X") {
		t.Errorf("without its header: %d %v", status, answer)
	}
}

var nil2 = map[string]any{}

func unanswered() bool { return false }

// TestKeepAlive: an idle stream gets a comment at intervals. An error after a comment is sent
// as a message of the stream.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := httptest.NewRecorder()
		w, end := mcpserver.KeepAlive(rec, unanswered)
		time.Sleep(31 * time.Second)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":1}`))
		end()
		time.Sleep(time.Minute)
		if body := rec.Body.String(); rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/event-stream" ||
			body != ": the call continues\n\n: the call continues\n\nevent: message\ndata: {\"error\":1}\n\n" {
			t.Errorf("%d %v %q", rec.Code, rec.Header(), body)
		}
		quick := httptest.NewRecorder() // control: a fast response is unchanged
		w, end = mcpserver.KeepAlive(quick, unanswered)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":1}`)
		end()
		if quick.Code != http.StatusBadRequest || quick.Body.String() != `{"error":1}` || quick.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %v %q", quick.Code, quick.Header(), quick.Body)
		}
	})
}
