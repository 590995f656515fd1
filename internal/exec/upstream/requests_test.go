//go:build unix

package upstream_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// everyKind contains requests of all kinds.
var everyKind = mcp.InputRequestMap{
	"name":  &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}},
	"model": &mcp.CreateMessageWithToolsParams{MaxTokens: 9, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Capital of France?"}}}}},
	"roots": &mcp.ListRootsParams{},
}

// sendManyRequests sends all requests at once and then one more, in the revision without
// sessions.
func sendManyRequests(s *mcp.Server) {
	add(s, "ask", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in := r.Params.InputResponses
		switch r.Params.RequestState {
		case "":
			return &mcp.CallToolResult{InputRequests: everyKind, RequestState: "first"}, nil
		case "first":
			model, _ := in["model"].(*mcp.CreateMessageWithToolsResult)
			roots, _ := in["roots"].(*mcp.ListRootsResult)
			name, _ := in["name"].(*mcp.ElicitResult)
			if model == nil || roots == nil || name == nil || len(roots.Roots) != 1 {
				return text("too little"), nil
			}
			if len(model.Meta)+len(roots.Meta)+len(roots.Roots[0].Meta)+len(name.Meta)+len(model.Content[0].(*mcp.TextContent).Meta) > 0 {
				return text("keys of the client's answers"), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"again": everyKind["name"]}, RequestState: "second " + model.Content[0].(*mcp.TextContent).Text}, nil
		}
		return text(r.Params.RequestState + format(in["again"].(*mcp.ElicitResult).Content)), nil
	})
}

var takesAll = tool.Takes{Form: true, URL: true, Sampling: true, Roots: true}

// TestRequestsInOneResponse: the requests of a server in one response reach the client
// together, each under its own action. A request that the client did not declare, or that
// policy forbids, ends the call; then no request is forwarded. Control: the first call.
func TestRequestsInOneResponse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("greedy", serve(sendManyRequests))
	p := person{takes: takesAll}
	r := must.Get(w.callAs(gatewaytest.Agent, "greedy/ask", `{}`, p.peer()))(t)
	if got := resultText(t, r); got != "second Parismap[name:ann]" || p.times != 2 || p.all["sampling/createMessage"] != 1 || p.all["roots/list"] != 1 || p.all["elicitation/create"] != 2 {
		t.Fatalf("%s %s, asked %d times: %v", r.Result, r.Message, p.times, p.all)
	}
	for capability, takes := range map[string]tool.Takes{
		"sampling": {Form: true, Roots: true}, "roots": {Form: true, Sampling: true}, "elicitation": {URL: true, Sampling: true, Roots: true},
	} {
		p := person{takes: takes}
		r := must.Get(w.callAs(gatewaytest.Agent, "greedy/ask", `{}`, p.peer()))(t)
		if r.Outcome != tool.Failed || p.times != 0 || !strings.Contains(string(r.Result), `"requiredCapabilities":{"`+capability+`":{`) {
			t.Errorf("without %s: %s, asked %d times", capability, r.Result, p.times)
		}
	}
	own := w.source
	for _, action := range []string{"mcp.sample", "mcp.list_roots"} {
		w.source = own + `@id("test.no") @reason("no") forbid(principal, action in Action::"` + action + `", resource);`
		must.Do(t, w.Rebuild(t.Context(), ""))
		p := person{takes: takesAll}
		r := must.Get(w.callAs(gatewaytest.Agent, "greedy/ask", `{}`, p.peer()))(t)
		if r.Outcome != tool.Failed || r.Reason != string(reason.ToolFailed) || p.times != 0 {
			t.Errorf("with %s forbidden: %s, asked %d times", action, r.Result, p.times)
		}
	}
	w.fails("greedy/mcp.sample", `{"ticket":"x","messages":[],"digest":"d"}`, reason.InvalidInput)
	w.fails("greedy/mcp.list_roots", `{"ticket":"x"}`, reason.InvalidInput)
}

// old serves a revision with sessions.
func old(change func(*mcp.Server), options mcp.ServerOptions) func(*conversation) {
	return func(c *conversation) {
		options.SupportedProtocolVersions = []string{"2025-11-25"}
		s := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, &options)
		hello(s)
		change(s)
		session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil)
		if err == nil {
			_ = session.Wait()
		}
	}
}

// TestRequestsDuringACall: servers of the older revisions send requests during a call. If the client
// did not declare the capability, they get the error that such a client would send.
func TestRequestsDuringACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("old", old(func(s *mcp.Server) {
		add(s, "sample", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "?"}}}})
			if err != nil {
				return text(err.Error()), nil
			}
			return text(res.Content.(*mcp.TextContent).Text), nil
		})
		add(s, "roots", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, err := r.Session.ListRoots(ctx, nil)
			if err != nil {
				return text(err.Error()), nil
			}
			return text(res.Roots[0].URI), nil
		})
	}, mcp.ServerOptions{}))
	for name, want := range map[string]string{"old/sample": "Paris", "old/roots": "file:///work"} {
		p := person{takes: takesAll}
		if r := must.Get(w.callAs(gatewaytest.Agent, name, `{}`, p.peer()))(t); resultText(t, r) != want || p.times != 1 {
			t.Errorf("%s: %s, asked %d times", name, r.Result, p.times)
		}
		p = person{takes: tool.Takes{Form: true}}
		if r := must.Get(w.callAs(gatewaytest.Agent, name, `{}`, p.peer()))(t); !strings.Contains(resultText(t, r), "did not declare") || p.times != 0 {
			t.Errorf("%s of a client that takes none: %s, asked %d times", name, r.Result, p.times)
		}
		if r := w.works(name, `{}`); !strings.Contains(resultText(t, r), "did not declare") {
			t.Errorf("%s of a client without a way to ask: %s", name, r.Result)
		}
	}
	w.source += `@id("test.no") @reason("no") forbid(principal, action in Action::"mcp.sample", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	p := person{takes: takesAll}
	if r := must.Get(w.callAs(gatewaytest.Agent, "old/sample", `{}`, p.peer()))(t); !strings.Contains(resultText(t, r), "the request was refused") || p.times != 0 {
		t.Errorf("forbidden: %s, asked %d times", r.Result, p.times)
	}
}

// TestCapabilitiesAreMirrored: a server of the revision without sessions receives the
// capabilities of the client of each call, even if that client has none.
func TestCapabilitiesAreMirrored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got *mcp.ClientCapabilities
	w.add("caps", serve(func(s *mcp.Server) {
		add(s, "look", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got = r.ClientCapabilities()
			return text("x"), nil
		})
	}))
	p := person{takes: tool.Takes{URL: true, Sampling: true}}
	must.Get(w.callAs(gatewaytest.Agent, "caps/look", `{}`, p.peer()))(t)
	if got == nil || got.Sampling == nil || got.Sampling.Tools != nil || got.Elicitation == nil || got.Elicitation.URL == nil || got.Elicitation.Form != nil || got.RootsV2 != nil {
		t.Errorf("told %s", must.Get(json.Marshal(got))(t))
	}
	w.works("caps/look", `{}`)
	if got == nil || got.Sampling != nil || got.Elicitation != nil || got.RootsV2 != nil {
		t.Errorf("told of a client that takes nothing: %s", must.Get(json.Marshal(got))(t))
	}
}

// TestLogs: log lines of a server during a call reach its client, if the client requests logs.
func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := func(s *mcp.Server) {
		add(s, "log", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for _, level := range []mcp.LoggingLevel{"debug", "info"} {
				if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: string(level)}); err != nil {
					return nil, err
				}
			}
			// The client receives the log lines before the answer.
			return text("x"), r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		})
	}
	w.add("old", old(log, mcp.ServerOptions{}))
	w.add("new", func(c *conversation) {
		s := mcp.NewServer(&mcp.Implementation{Name: "new", Version: "1"}, nil)
		hello(s)
		log(s)
		if session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil); err == nil {
			_ = session.Wait()
		}
	})
	for _, server := range []string{"old", "new"} {
		for level, want := range map[string]string{"info": `"info"`, "": ""} {
			lines := make(chan tool.LogLine, 8)
			peer := tool.Peer{LogLevel: level, Log: func(l tool.LogLine) { lines <- l }, Progress: func(tool.Progress) {}}
			must.Get(w.callAs(gatewaytest.Agent, server+"/log", `{}`, peer))(t)
			close(lines)
			var got string
			for l := range lines {
				got += string(l.Data)
			}
			if got != want {
				t.Errorf("%s: of level %q: %s", server, level, got)
			}
		}
	}
}

// TestErrorsOfServers: the error response of a server is in the result, with its code and data.
func TestErrorsOfServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("docs", func(c *conversation) {
		s := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, &mcp.ServerOptions{CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Ref.Name + " " + r.Params.Argument.Value + "!"}}}, nil
		}})
		hello(s)
		s.AddResource(&mcp.Resource{URI: "doc://a", Name: "a"}, nil)
		s.AddPrompt(&mcp.Prompt{Name: "first"}, nil)
		if session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil); err == nil {
			_ = session.Wait()
		}
	})
	r := w.fails("docs/mcp.read_resource", `{"uri":"doc://none"}`, reason.ToolFailed)
	if !strings.Contains(string(r.Result), `"rpc":{"code":-32`) || !strings.Contains(string(r.Result), `"data":{"uri":"doc://none"}`) {
		t.Errorf("%s", r.Result)
	}
	r = w.works("docs/mcp.complete", `{"ref":{"type":"ref/prompt","name":"first"},"argument":{"name":"a","value":"b"}}`)
	if !strings.Contains(string(r.Result), `"first b!"`) {
		t.Errorf("%s", r.Result)
	}
	w.fails("docs/mcp.complete", `{"ref":{"type":"ref/prompt","name":"other"},"argument":{"name":"a","value":"b"}}`, reason.NotFound)
}
