//go:build unix

package upstream_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/gateway/gatewaytest"
)

// asker is a server that sends a request to its client during a call.
func asker(ask *mcp.ElicitParams) func(*conversation) {
	return serve(func(s *mcp.Server) {
		add(s, "ask", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, ok := r.Params.InputResponses["q"].(*mcp.ElicitResult)
			if !ok {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": ask}}, nil
			}
			return text(res.Action + format(res.Content)), nil
		})
	})
}

// person accepts every request and counts the requests.
type person struct {
	asked []mcp.ElicitParams
	// all contains the received requests by method.
	all   map[string]int
	times int
	takes tool.Takes
}

func (p *person) peer() tool.Peer {
	if p.takes == (tool.Takes{}) {
		p.takes = tool.Takes{Form: true, URL: true}
	}
	return tool.Peer{Takes: p.takes, Ask: func(_ context.Context, requests map[string]tool.Request) (map[string]json.RawMessage, error) {
		p.times++
		if p.all == nil {
			p.all = map[string]int{}
		}
		answers := map[string]json.RawMessage{}
		for name, r := range requests {
			p.all[r.Method]++
			switch r.Method {
			case "elicitation/create":
				var e mcp.ElicitParams
				if err := json.Unmarshal(r.Params, &e); err != nil {
					return nil, err
				}
				p.asked = append(p.asked, e)
				answers[name] = json.RawMessage(`{"action":"accept","content":{"name":"ann"},"_meta":{"com.example/key":1}}`)
			case "sampling/createMessage":
				answers[name] = json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"Paris","_meta":{"com.example/key":1}},"model":"m","_meta":{"com.example/key":1}}`)
			case "roots/list":
				answers[name] = json.RawMessage(`{"roots":[{"uri":"file:///work","name":"work","_meta":{"com.example/key":1}}],"_meta":{"com.example/key":1}}`)
			}
		}
		return answers, nil
	}}
}

var form = &mcp.ElicitParams{Mode: "form", Message: "Who are you?\x1b[2J", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}

// TestElicit: a question of a server reaches the client labeled with the server's name, under
// the action mcp.elicit. It is not forwarded if a policy forbids it, if the client lacks the
// capability, or if the tool is called manually.
func TestElicit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("asker", asker(form))
	var p person
	r := must.Get(w.callAs(gatewaytest.Agent, "asker/ask", `{}`, p.peer()))(t)
	if got := resultText(t, r); got != "acceptmap[name:ann]" || len(p.asked) != 1 {
		t.Fatalf("%s, asked %+v", r.Result, p.asked)
	}
	if a := p.asked[0]; !strings.HasPrefix(a.Message, "The upstream server asker asks: Who are you?") || strings.Contains(a.Message, "\x1b") {
		t.Errorf("asked %+v", a)
	}
	if r := w.fails("asker/ask", `{}`, reason.ToolFailed); !strings.Contains(string(r.Result), `"code":-32021`) || !strings.Contains(string(r.Result), `"elicitation":{"form":{}}`) {
		t.Errorf("a client that takes no questions: %s", r.Result)
	}
	w.fails("asker/mcp.elicit", `{"ticket":"x","mode":"form","message":"m"}`, reason.InvalidInput)
	w.source += `@id("test.no") @reason("no") forbid(principal, action in Action::"mcp.elicit", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	r = must.Get(w.callAs(gatewaytest.Agent, "asker/ask", `{}`, p.peer()))(t)
	if got := resultText(t, r); got != "declinemap[]" || len(p.asked) != 1 {
		t.Errorf("forbidden: %s, asked %+v", got, p.asked)
	}
}

// TestElicitAsks: without a policy of the operator, the question requires approval before it is
// forwarded.
func TestElicitAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source = `@id("test.one") @reason("a test") @waives("approval: a test")
permit(principal, action == Action::"tool.execute/asker/ask", resource) when { context.egress.mode != "none" };`
	asked := *form
	w.runner.set("asker", asker(&asked))
	w.source, asked.Message = letsAll, "Who are you?"
	must.Get(w.Add(t.Context(), operator, declared.Server{Name: "asker", Command: []string{"true", "asker"}}))(t)
	w.source = `@id("test.one") @reason("a test") @waives("approval: a test")
permit(principal, action == Action::"tool.execute/asker/ask", resource) when { context.egress.mode != "none" };`
	must.Do(t, w.Rebuild(t.Context(), ""))
	var p person
	done := make(chan tool.Report, 1)
	go func() {
		out, _ := w.Call(context.WithoutCancel(t.Context()), call.Submission{Caller: gatewaytest.Agent, Tool: "asker/ask", Peer: p.peer()}, func(call.Event) {})
		done <- out.Report
	}()
	var found []approval.Record
	until(t, func() bool {
		found, _, _ = w.Desk.Records.List(t.Context(), approval.Filter{})
		return len(found) > 0
	})
	rec := found[0]
	if rec.Binding.Tool != "asker/mcp.elicit" || len(p.asked) != 0 || !strings.Contains(rec.Prompt.Summary, "The upstream server asker asks") {
		t.Errorf("asked about %s (%s), the client %d times", rec.Binding.Tool, rec.Prompt.Summary, len(p.asked))
	}
	must.Get(w.Desk.Votes.Decide(t.Context(), operator, rec.ID, approval.Ballot{Allow: true, ShownDigest: rec.CallDigest}))(t)
	if r := <-done; resultText(t, r) != "acceptmap[name:ann]" || len(p.asked) != 1 {
		t.Errorf("after a yes: %s", r.Result)
	}
}

// TestElicitURL: a server cannot direct a user to the gateway or to this machine. Control: a
// page on another host.
func TestElicitURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *upstream.Config) { c.OwnHosts = []string{"palyra.example.org", "192.0.2.7"} })
	for url, passes := range map[string]bool{
		"https://accounts.example.com/login": true, "https://palyra.example.org/approvals/1": false, "https://PALYRA.example.org:8443/": false, "https://127.0.0.1/": false,
		"https://[::1]:9/": false, "https://localhost/x": false, "https://a.localhost/": false, "https://192.0.2.7/": false, "https://0.0.0.0/": false, "http://accounts.example.com/": false,
		"https://user@accounts.example.com/": false, "javascript:alert(1)": false, "https://127.1/": false, "https://0x7f000001/": false,
	} {
		ask := &mcp.ElicitParams{Mode: "url", Message: "Log in.", URL: url, ElicitationID: "1"}
		name := "u" + strings.ToLower(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, url))
		name = name[:min(len(name), 30)]
		w.add(name, asker(ask))
		var p person
		r := must.Get(w.callAs(gatewaytest.Agent, name+"/ask", `{}`, p.peer()))(t)
		if (len(p.asked) == 1) != passes {
			t.Errorf("%s: passed on %d times: %s %s", url, len(p.asked), r.Result, r.Message)
		}
	}
}

// TestResourcesAndPrompts: resources and prompts are called like tools, under their own
// actions. Only approved prompts can be called.
func TestResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := false
	w.add("docs", func(c *conversation) {
		s := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, nil)
		hello(s)
		s.AddResource(&mcp.Resource{URI: "doc://a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "doc://a", Text: "content of a"}}}, nil
		})
		prompt := func(name string) {
			s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "prompt " + name}}}}, nil
			})
		}
		prompt("first")
		if second {
			prompt("second")
		}
		session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil)
		if err == nil {
			_ = session.Wait()
		}
	})
	for call, want := range map[[2]string]string{
		{"docs/mcp.list_resources", `{}`}: "doc://a", {"docs/mcp.read_resource", `{"uri":"doc://a"}`}: "content of a", {"docs/mcp.get_prompt", `{"name":"first"}`}: "prompt first",
	} {
		if r := w.works(call[0], call[1]); !strings.Contains(string(r.Result), want) {
			t.Errorf("%s: %s", call[0], r.Result)
		}
	}
	second = true
	must.Get(w.Refresh(t.Context(), operator, "docs"))(t)
	w.fails("docs/mcp.get_prompt", `{"name":"second"}`, reason.NotFound)
	w.source += `@id("test.no") @reason("no") forbid(principal, action in Action::"mcp.read_resource", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	out, err := w.Call(t.Context(), call.Submission{Caller: gatewaytest.Agent, Tool: "docs/mcp.read_resource", Input: []byte(`{"uri":"doc://a"}`)}, func(call.Event) {})
	if err != nil || out.Decision.Allowed {
		t.Errorf("%v, %+v", err, out.Decision)
	}
	w.works("docs/mcp.get_prompt", `{"name":"first"}`)
}
