package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream/declared"
)

// asFault reports whether an error is a JSON-RPC error.
func asFault(err error, fault **jsonrpc.Error) bool { return errors.As(err, fault) }

// questionOf decodes a server request and returns an error for a capability that the client did
// not declare.
func (ak *asker) questionOf(server string, p mcp.InputRequest, peer tool.Peer) (*question, error) {
	q := &question{server: server}
	var err error
	switch p := p.(type) {
	case *mcp.ElicitParams:
		err = q.elicits(*p, peer)
	case *mcp.CreateMessageWithToolsParams:
		err = q.samples(*p, peer)
	case *mcp.ListRootsParams:
		q.tool, q.request = declared.ListRoots, tool.Request{Method: "roots/list", Params: json.RawMessage(`{}`)}
		q.input, q.summary = map[string]any{}, "The upstream server "+server+" requests the directories that the client works in."
		err = lacks(peer, peer.Takes.Roots, "roots", map[string]any{})
	default:
		err = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client does not support this request"}
	}
	return q, err
}

// lacks returns the error for an undeclared capability or a part of it.
func lacks(peer tool.Peer, takes bool, capability string, needed map[string]any) error {
	if takes && peer.Ask != nil {
		return nil
	}
	data, err := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{capability: needed}})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client did not declare the capability that the request needs", Data: data}
}

// elicits fills in a question to the user.
func (q *question) elicits(p mcp.ElicitParams, peer tool.Peer) error {
	if p.Mode == "" {
		p.Mode = "form"
	}
	q.tool, q.url = declared.Elicit, p.URL
	q.input = map[string]any{"mode": p.Mode, "message": clean(p.Message, 2000), "url": p.URL, "asks_for": properties(p.RequestedSchema)}
	p.Message, p.Meta = label(q.server, p.Message), nil
	q.summary, q.notes = p.Message, []string{"The text is from the server " + q.server + ", not from the gateway. The answer is sent to the server."}
	takes := peer.Takes.Form
	switch p.Mode {
	case "form":
		q.url = ""
	case "url":
		takes = peer.Takes.URL
		q.notes = append(q.notes, "It requests to open a page: "+clean(p.URL, 500))
		if p.URL == "" {
			q.url = "about:blank" // an invalid URL, which is declined
		}
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the mode of the elicitation is not supported"}
	}
	text, err := json.Marshal(p)
	q.request = tool.Request{Method: "elicitation/create", Params: text}
	return errors.Join(err, lacks(peer, takes, "elicitation", map[string]any{p.Mode: map[string]any{}}))
}

// mostShown is the number of messages of a sampling request that are displayed to people and
// policies. The digest covers all messages.
const mostShown = 16

// samples fills in a request to the client's model.
func (q *question) samples(p mcp.CreateMessageWithToolsParams, peer tool.Peer) error {
	p.Meta = nil
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	exact, err := canonical.JSON(text)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request has no canonical form"}
	}
	messages := []any{}
	for _, message := range p.Messages[:min(len(p.Messages), mostShown)] {
		content, err := json.Marshal(message.Content)
		if err != nil {
			return err
		}
		words := string(content)
		if len(message.Content) == 1 {
			if t, is := message.Content[0].(*mcp.TextContent); is {
				words = t.Text
			}
		}
		messages = append(messages, map[string]any{"role": clean(string(message.Role), 20), "text": clean(words, 2000)})
		q.notes = append(q.notes, fmt.Sprintf("%s: %s", clean(string(message.Role), 20), clean(words, 500)))
	}
	q.tool, q.request = declared.Sample, tool.Request{Method: "sampling/createMessage", Params: text}
	q.input = map[string]any{
		"messages": messages, "count": len(p.Messages), "system": clean(p.SystemPrompt, 2000), "max_tokens": p.MaxTokens, "tools": len(p.Tools), "digest": canonical.Digest(exact),
	}
	q.summary = fmt.Sprintf("The upstream server %s requests that the client's model answer %d messages, with at most %d tokens. The answer is sent to the server.", q.server, len(p.Messages), p.MaxTokens)
	needed, takes := map[string]any{}, peer.Takes.Sampling
	if len(p.Tools) > 0 {
		needed["tools"], takes = map[string]any{}, peer.Takes.SamplingTools
	}
	return lacks(peer, takes, "sampling", needed)
}

// properties returns the fields of a form, sorted.
func properties(schema any) []string {
	list := []string{}
	object, is := schema.(map[string]any)
	if !is {
		return list
	}
	if all, is := object["properties"].(map[string]any); is {
		for name := range all {
			list = append(list, clean(name, 100))
		}
	}
	slices.Sort(list)
	return list
}

// leadsHome reports whether a URL leads to the gateway or to this machine, or cannot be resolved.
// A page there could impersonate the gateway.
func (ak *asker) leadsHome(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil {
		return true
	}
	host, err := egress.CanonicalHost(u.Hostname())
	if err != nil {
		return true
	}
	if addr, is := host.Addr(); is {
		return addr.IsLoopback() || addr.IsUnspecified() || ak.isOwn(addr)
	}
	name := strings.ToLower(host.String())
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.ContainsFunc(ak.ownHosts, func(own string) bool { return strings.EqualFold(own, name) })
}

// passes are the tools that forward server requests to the client.
var passes = []struct{ tool, title, description, required, properties string }{
	{declared.Elicit, "Let a server ask", "Pass a question of the upstream server %s on to the person behind a call. Only the gateway itself makes these calls.",
		`"ticket","mode","message"`, `"mode":{"type":"string","enum":["form","url"]},"message":{"type":"string"},"url":{"type":"string"},"asks_for":{"type":"array","items":{"type":"string"}}`},
	{declared.Sample, "Let a server use the client's model", "Pass a request of the upstream server %s on to the model of the client. Only the gateway itself makes these calls.",
		`"ticket","messages","digest"`, `"messages":{"type":"array","items":{"type":"object","properties":{"role":{"type":"string"},"text":{"type":"string"}}}},` +
			`"count":{"type":"integer"},"system":{"type":"string"},"max_tokens":{"type":"integer"},"tools":{"type":"integer"},"digest":{"type":"string"}`},
	{declared.ListRoots, "Let a server see the client's directories", "Send the upstream server %s the directories that the client works in. Only the gateway itself makes these calls.",
		`"ticket"`, ``},
}

// passing is one of these tools. It implements tool.Runnable.
type passing struct {
	manager    *Manager
	descriptor tool.Descriptor
	server     string
	name       string
}

// passings returns these tools for a server.
func passings(m *Manager, s declared.Server) (list []passing) {
	for _, p := range passes {
		properties := `"ticket":{"type":"string"}`
		if p.properties != "" {
			properties += "," + p.properties
		}
		list = append(list, passing{m, tool.Descriptor{
			Name: s.Name + "/" + p.tool, Title: p.title, Description: fmt.Sprintf(p.description, s.Name),
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":[` + p.required + `],"properties":{` + properties + `}}`),
			Executor:    tool.MCPUpstream, OpenWorld: true, AlwaysSensitive: true,
		}, s.Name, p.tool})
	}
	return list
}

// Descriptor implements tool.Runnable.
func (t passing) Descriptor() tool.Descriptor { return t.descriptor }

// Plan implements tool.Runnable.
func (t passing) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	q, err := t.question(p.Input)
	if err != nil {
		return tool.Plan{}, err
	}
	plan := tool.Plan{
		Facts:   tool.Facts{Risk: riskServer, SandboxTier: "builtin", SandboxLevel: "none", EgressMode: egress.Strict.String()},
		Preview: tool.Preview{Summary: q.summary, Notes: q.notes},
		Subject: t.descriptor.Name, SubjectCovers: "any request of this kind of the upstream server " + t.server,
	}
	if q.url != "" {
		u, err := url.Parse(q.url)
		if err != nil {
			return tool.Plan{}, reason.Errorf(reason.InvalidInput, "the URL of the question is not valid")
		}
		host, err := egress.CanonicalHost(u.Hostname())
		if err != nil {
			return tool.Plan{}, err
		}
		plan.Facts.Host, plan.Facts.Domain = host.String(), host.Domain()
	}
	return plan, nil
}

// Prepare implements tool.Runnable.
func (t passing) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := t.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: t.run}, err
}

func (t passing) run(ctx context.Context, c tool.Call) tool.Report {
	report := newReport(t.manager.use.Version)
	q, err := t.question(c.Proposal.Input)
	if err != nil {
		return failed(ctx, report, err)
	}
	if c.Pause != nil {
		defer c.Pause()()
	}
	answer, err := q.answer(ctx)
	if err != nil {
		return failed(ctx, report, reason.Errorf(reason.ToolFailed, "the client did not answer the request: %w", err))
	}
	text, err := canonical.JSON(answer)
	if err != nil {
		return failed(ctx, report, reason.Errorf(reason.ToolFailed, "the answer has no canonical form: %w", err))
	}
	report.Outcome, report.Result = tool.Succeeded, text
	return report.Finish()
}

// question returns the question of a ticket.
func (t passing) question(input json.RawMessage) (*question, error) {
	var in struct {
		Ticket string `json:"ticket"`
	}
	if err := canonical.Read(input, &in); err != nil {
		return nil, err
	}
	m := t.manager
	m.asker.mu.Lock()
	defer m.asker.mu.Unlock()
	q := m.asker.open[in.Ticket]
	if q == nil || q.server != t.server || q.tool != t.name {
		return nil, reason.Errorf(reason.InvalidInput, "the upstream server %s has no pending request: only the gateway itself calls this tool", t.server).
			WithRemedy("Call a tool of the server; its requests are decided during that call.")
	}
	return q, nil
}
func (ak *asker) isOwn(addr netip.Addr) bool {
	for _, own := range ak.ownHosts {
		if a, err := netip.ParseAddr(own); err == nil && a.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}
