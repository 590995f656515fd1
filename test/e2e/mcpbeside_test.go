//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
)

// library is an upstream server with every MCP feature other than tools.
func library(t *testing.T, stateless bool) (url string, change func()) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "lisp"}}}, nil
		},
	})
	s.AddPrompt(&mcp.Prompt{Name: "summary", Arguments: []*mcp.PromptArgument{{Name: "book"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Summarise " + r.Params.Arguments["book"]}}}}, nil
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text of " + r.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "book://sicp", Name: "sicp"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "book://by/{name}", Name: "by"}, read)
	s.AddTool(&mcp.Tool{Name: "review", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		model, _ := r.Params.InputResponses["model"].(*mcp.CreateMessageWithToolsResult)
		roots, _ := r.Params.InputResponses["roots"].(*mcp.ListRootsResult)
		if model == nil || roots == nil {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
				"model": &mcp.CreateMessageWithToolsParams{MaxTokens: 5, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Is it good?"}}}}},
				"roots": &mcp.ListRootsParams{},
			}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: model.Content[0].(*mcp.TextContent).Text + " in " + roots.Roots[0].URI}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "meta", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		meta, err := json.Marshal(r.Params.Meta)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(meta) + string(r.Params.Arguments)}}}, err
	})
	site := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		site.CloseClientConnections() // the gateway keeps a stream to it open while it runs
		site.Close()
	})
	return site.URL, func() {
		_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: "book://sicp"})
	}
}

// freeLibrary lets the calls of the upstream server run. Control: a second server, which the
// policy does not mention.
const freeLibrary = `@id("library.free")
@reason("a test")
@waives("approval: a test")
permit(principal, action in Action::"tool.execute", resource in Server::"library")
when { context.egress.mode != "none" };
`

// TestMCPPromptsAndResources: prompts, resources, completions, subscriptions, sampling and roots
// pass between the official client and an upstream server, in every combination of revisions, and
// each passes policy.
func TestMCPPromptsAndResources(t *testing.T) {
	t.Parallel()
	for i, revision := range mcpRevisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			g := startMCP(t)
			g.T = t
			url, change := library(t, i%2 == 0)
			g.ownerDoes("mcp", "add", "library", "--url", url)
			g.ownerDoes("mcp", "add", "asks", "--url", url)
			g.policy("library.cedar", freeLibrary)
			g.ownerDoes("policy", "reload")
			c, updated := g.reader(t, revision)
			g.reads(t, c)
			g.watches(t, c, updated, change)
			if got := must.Get(c.CallTool(t.Context(), &mcp.CallToolParams{Name: "library_review"}))(t); got.Content[0].(*mcp.TextContent).Text != "Good in file:///work" {
				t.Errorf("asked for a model: %+v", got.Content[0])
			}
			passesNoMeta(t, c)
			journal := g.operator.ok("calls", "list", "-o", "ndjson")
			for _, name := range []string{"get_prompt", "list_resources", "read_resource", "complete", "subscribe", "sample", "list_roots"} {
				if !strings.Contains(journal, "library/mcp."+name) {
					t.Errorf("no call of library/mcp.%s is recorded", name)
				}
			}
			if strings.Contains(journal, "asks/mcp.") {
				t.Error("a call that people have to be asked about was made")
			}
		})
	}
}

// TestInstancesEndWithTheToken: an agent's instance of an upstream server ends when the agent's
// token ends, and the journal records the end.
func TestInstancesEndWithTheToken(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	url, _ := library(t, true)
	g.ownerDoes("mcp", "add", "library", "--url", url)
	g.policy("library.cedar", freeLibrary)
	g.ownerDoes("policy", "reload")
	a := g.goAgent(t, "", g.overHTTP())
	must.Get(a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "library_meta", Arguments: map[string]any{"text": "x"}}))(t)
	ended := func() string { return g.local().ok("journal", "list", "--code", "PAL-U106", "-o", "ndjson") }
	if got := ended(); got != "" {
		t.Fatalf("before the token was revoked: %s", got)
	}
	token := decode[struct {
		ID string `json:"token_id"`
	}](t, strings.SplitN(g.local().ok("tokens", "list", "-o", "ndjson"), "\n", 2)[0]).ID
	g.ownerDoes("tokens", "revoke", "--yes", token)
	must.Eventually(t, "the end is on record", func() (bool, string) {
		got := ended()
		return strings.Contains(got, `"subject":"agent:coder"`) && strings.Contains(got, `"server":"library"`), got
	})
}

// passesNoMeta: the _meta of a client reaches no server, because policy does not judge it and
// no record contains it. Control: an argument reaches the server.
func passesNoMeta(t *testing.T, c *mcp.ClientSession) {
	t.Helper()
	r := must.Get(c.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "library_meta", Arguments: map[string]any{"text": "as an argument"},
		Meta: mcp.Meta{"traceparent": "smuggled", "com.example/key": "smuggled", "callId": "smuggled", "palyra.dev/requester-reason": "smuggled"},
	}))(t)
	got := r.Content[0].(*mcp.TextContent).Text
	if strings.Contains(got, "smuggled") || !strings.Contains(got, "as an argument") || !strings.Contains(got, "progressToken") {
		t.Errorf("the server got %s", got)
	}
}

func (g *mcpGateway) ownerDoes(args ...string) {
	g.T.Helper()
	g.local().ok(args...)
}

// reader returns the official client, with a model and a directory.
func (g *mcpGateway) reader(t *testing.T, revision string) (*mcp.ClientSession, <-chan string) {
	t.Helper()
	updated := make(chan string, 64)
	client := mcp.NewClient(&mcp.Implementation{Name: "go-test", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "Good"}}, nil
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	client.AddRoots(&mcp.Root{URI: "file:///work"})
	session := must.Get(client.Connect(t.Context(), g.overHTTP(), &mcp.ClientSessionOptions{ProtocolVersion: revision}))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session, updated
}

func (g *mcpGateway) reads(t *testing.T, c *mcp.ClientSession) {
	t.Helper()
	var names []string
	for _, p := range must.Get(c.ListPrompts(t.Context(), nil))(t).Prompts {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "asks_summary library_summary" {
		t.Errorf("prompts %s", got)
	}
	p := must.Get(c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "library_summary", Arguments: map[string]string{"book": "SICP"}}))(t)
	if got := p.Messages[0].Content.(*mcp.TextContent).Text; got != "Summarise SICP" || p.Meta["palyra.dev/call"] == nil {
		t.Errorf("prompt %q %v", got, p.Meta)
	}
	var uris []string
	for _, r := range must.Get(c.ListResources(t.Context(), nil))(t).Resources {
		uris = append(uris, r.URI)
	}
	if got := strings.Join(uris, " "); got != "palyra:library:book://sicp" {
		t.Errorf("resources %s", got)
	}
	templates := must.Get(c.ListResourceTemplates(t.Context(), nil))(t).ResourceTemplates
	if len(templates) != 2 || templates[1].URITemplate != "palyra:library:book://by/{name}" {
		t.Errorf("templates %+v", templates)
	}
	for _, uri := range []string{"book://sicp", "book://by/ann"} {
		r := must.Get(c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "palyra:library:" + uri}))(t)
		if r.Contents[0].Text != "text of "+uri || r.Contents[0].URI != "palyra:library:"+uri {
			t.Errorf("read %+v", r.Contents[0])
		}
	}
	_, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "palyra:library:book:nothing"})
	if fault := (*jsonrpc.Error)(nil); !errors.As(err, &fault) || !strings.Contains(string(fault.Data), "palyra:library:book:nothing") {
		t.Errorf("a resource that is not there: %v", err)
	}
	got := must.Get(c.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "library_summary"}, Argument: mcp.CompleteParamsArgument{Name: "book", Value: "common "}}))(t)
	if fmt.Sprint(got.Completion.Values) != "[common lisp]" {
		t.Errorf("completed %v", got.Completion.Values)
	}
}

func (g *mcpGateway) watches(t *testing.T, c *mcp.ClientSession, updated <-chan string, change func()) {
	t.Helper()
	must.Do(t, c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "palyra:library:book://sicp"}))
	for deadline := time.Now().Add(must.Patience); ; {
		change()
		select {
		case got := <-updated:
			if got != "palyra:library:book://sicp" {
				t.Errorf("told of %s", got)
			}
			return
		case <-time.After(50 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("nobody was told of the change")
			}
		}
	}
}
