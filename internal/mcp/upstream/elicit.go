package upstream

import (
	"context"
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/canonical"
	"palyra/internal/egress"
	"palyra/internal/mcp/declared"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

// Calls takes calls through the pipeline (toolcall.Pipeline).
type Calls interface {
	Call(ctx context.Context, s toolcall.Submission, observe func(toolcall.Event)) (toolcall.Outcome, error)
}

// Serve has questions of servers decided by a pipeline. Until then they are declined.
func (m *Manager) Serve(c Calls) { m.asking.calls = c }

// asking are the questions of servers that are under way.
type asking struct {
	calls Calls

	mu sync.Mutex
	// open are the questions by ticket. A call of <server>/mcp.elicit without one
	// is by somebody else than the server.
	open map[string]*question
}

// question is one question of a server to the person behind a call.
type question struct {
	server string
	peer   tool.Peer
	ask    tool.Elicitation
}

var (
	declined  = &mcp.ElicitResult{Action: "decline"}
	cancelled = &mcp.ElicitResult{Action: "cancel"}
)

// elicited answers a question of a server. It is a call of its own, of the tool
// <server>/mcp.elicit, decided under the action mcp.elicit: asked about by default, and
// passed on to the client only after a yes. A question that is of no call, or could be
// of several, is declined, and so is one that leads to the gateway itself.
func (m *Manager) elicited(ctx context.Context, in *instance, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c, ok := in.only()
	if !ok || c.Peer.Elicit == nil || m.asking.calls == nil {
		return declined, nil
	}
	ask := tool.Elicitation{Server: in.server.Name, Mode: p.Mode, Message: label(in.server.Name, p.Message), URL: p.URL, ID: p.ElicitationID}
	if ask.Mode == "" {
		ask.Mode = "form"
	}
	if ask.Mode == "url" && m.leadsHome(p.URL) {
		m.use.Log.WarnContext(ctx, "an upstream server wanted to send somebody to the gateway itself, or to this machine: declined")
		return declined, nil
	}
	if schema, is := p.RequestedSchema.(map[string]any); is {
		ask.Schema = schema
	}
	ticket := ulid.Make().String()
	m.asking.mu.Lock()
	if m.asking.open == nil {
		m.asking.open = map[string]*question{}
	}
	m.asking.open[ticket] = &question{in.server.Name, c.Peer, ask}
	m.asking.mu.Unlock()
	defer func() {
		m.asking.mu.Lock()
		defer m.asking.mu.Unlock()
		delete(m.asking.open, ticket)
	}()
	input, err := canonical.Marshal(map[string]any{"ticket": ticket, "mode": ask.Mode, "message": clean(p.Message, 2000), "url": p.URL, "asks_for": properties(ask.Schema)})
	if err != nil {
		return declined, nil // what has no exact form cannot be decided on
	}
	if c.Pause != nil {
		defer c.Pause()() // people may take long
	}
	from := c.Proposal
	out, err := m.asking.calls.Call(ctx, toolcall.Submission{
		Caller: from.Caller, Tool: in.server.Name + "/" + declared.Elicit, Input: input, Channel: from.Channel, Session: c.Peer.Session,
	}, func(toolcall.Event) {})
	if err != nil || out.Report.Outcome != tool.Succeeded {
		return declined, nil // a no of whatever kind is a no to the server, which learns no more
	}
	var answer tool.Elicited
	if json.Unmarshal(out.Report.Result, &answer) != nil || !slices.Contains([]string{"accept", "decline", "cancel"}, answer.Action) {
		return cancelled, nil
	}
	return &mcp.ElicitResult{Action: answer.Action, Content: answer.Content}, nil
}

// properties are what a form asks for, sorted.
func properties(schema map[string]any) []string {
	list := []string{}
	if all, is := schema["properties"].(map[string]any); is {
		for name := range all {
			list = append(list, clean(name, 100))
		}
	}
	slices.Sort(list)
	return list
}

// only is the call under way on an instance, if it is one.
func (in *instance) only() (tool.Call, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.calls) != 1 {
		return tool.Call{}, false
	}
	for _, c := range in.calls {
		return c.call, true
	}
	return tool.Call{}, false
}

// leadsHome reports whether a URL leads to the gateway, to this machine, or cannot be
// told where: a page there would speak with the gateway's voice.
func (m *Manager) leadsHome(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil {
		return true
	}
	host, err := egress.CanonicalHost(u.Hostname())
	if err != nil {
		return true
	}
	if addr, is := host.Addr(); is {
		return addr.IsLoopback() || addr.IsUnspecified() || m.isOwn(addr)
	}
	name := strings.ToLower(host.String())
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.ContainsFunc(m.use.OwnHosts, func(own string) bool { return strings.EqualFold(own, name) })
}

func (m *Manager) isOwn(addr netip.Addr) bool {
	for _, own := range m.use.OwnHosts {
		if a, err := netip.ParseAddr(own); err == nil && a.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}

// elicitation is the tool <server>/mcp.elicit. It implements dispatch.Tool.
type elicitation struct {
	manager *Manager
	server  declared.Server
}

// Descriptor implements dispatch.Tool.
func (t elicitation) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: t.server.Name + "/" + declared.Elicit, Title: "Let a server ask",
		Description: "Pass a question of the upstream server " + t.server.Name + " on to the person behind a call. The gateway makes these calls itself; nobody else can.",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["ticket","mode","message"],"properties":{` +
			`"ticket":{"type":"string"},"mode":{"type":"string","enum":["form","url"]},"message":{"type":"string"},"url":{"type":"string"},` +
			`"asks_for":{"type":"array","items":{"type":"string"}}}}`),
		Executor: tool.MCPUpstream, OpenWorld: true, AlwaysSensitive: true,
	}
}

// Plan implements dispatch.Tool.
func (t elicitation) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	q, err := t.question(p.Input)
	if err != nil {
		return tool.Plan{}, err
	}
	plan := tool.Plan{
		Facts:   tool.Facts{Risk: riskServer, SandboxTier: "builtin", SandboxLevel: "none", EgressMode: egress.Strict.String()},
		Preview: tool.Preview{Summary: q.ask.Message, Notes: []string{"These are the words of the server " + q.server + ", and not of the gateway. What is answered goes to it."}},
		Subject: t.server.Name + "/" + declared.Elicit, SubjectCovers: "any question of the upstream server " + t.server.Name,
	}
	if q.ask.Mode == "url" {
		u, err := url.Parse(q.ask.URL)
		if err != nil {
			return tool.Plan{}, reason.Errorf(reason.InvalidInput, "the URL of the question is none")
		}
		host, err := egress.CanonicalHost(u.Hostname())
		if err != nil {
			return tool.Plan{}, err
		}
		plan.Facts.Host, plan.Facts.Domain = host.String(), host.Domain()
		plan.Preview.Notes = append(plan.Preview.Notes, "It wants a page of "+host.String()+" to be opened: "+clean(q.ask.URL, 500))
	}
	return plan, nil
}

// Prepare implements dispatch.Tool.
func (t elicitation) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := t.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: t.run}, err
}

func (t elicitation) run(ctx context.Context, c tool.Call) tool.Report {
	report := t.manager.report()
	q, err := t.question(c.Proposal.Input)
	if err != nil {
		return failed(ctx, report, err)
	}
	if c.Pause != nil {
		defer c.Pause()()
	}
	answer, err := q.peer.Elicit(ctx, q.ask)
	if err != nil {
		return failed(ctx, report, reason.Errorf(reason.ToolFailed, "the client did not pass the question on: %w", err))
	}
	text, err := canonical.Marshal(map[string]any{"action": answer.Action, "content": answer.Content})
	if err != nil {
		return failed(ctx, report, reason.Errorf(reason.ToolFailed, "the answer has no exact form: %w", err))
	}
	report.Outcome, report.Result = tool.Succeeded, text
	return finished(report)
}

// question finds the question of a ticket.
func (t elicitation) question(input json.RawMessage) (*question, error) {
	var in struct{ Ticket string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	m := t.manager
	m.asking.mu.Lock()
	defer m.asking.mu.Unlock()
	q := m.asking.open[in.Ticket]
	if q == nil || q.server != t.server.Name {
		return nil, reason.Errorf(reason.InvalidInput, "the upstream server %s asks nothing at present: this tool is called by the gateway itself", t.server.Name).
			WithRemedy("Call a tool of the server; if it has a question, it is asked then.")
	}
	return q, nil
}
