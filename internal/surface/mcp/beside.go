package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/core/wirename"
	declaration "palyra/internal/exec/upstream/declared"
)

// What upstream servers have beside tools is shown in the methods that MCP has for it.
// Behind each is a tool that the gateway makes for the server, and its call goes
// through the pipeline like any other.

// mine are the tools that the caller could ever call, by name.
func (f *Face) mine(v *visit) map[string]bool {
	list := make(map[string]bool)
	for _, d := range f.Catalog(v.caller) {
		if reason.Of(f.Tools.Unusable(d.Name)) != reason.ToolSuspended {
			list[d.Name] = true
		}
	}
	return list
}

// servers are the upstream servers by name, with what was approved of them.
func (f *Face) upstreams() []declaration.State {
	if f.Upstreams == nil {
		return nil
	}
	return f.Upstreams()
}

// definitions are those of a kind of a server that were approved and are not suspended.
func definitions(s declaration.State, kind declaration.Kind) []declaration.Definition {
	return slices.DeleteFunc(slices.Clone(s.Approved.Definitions), func(d declaration.Definition) bool {
		return d.Kind != kind || slices.ContainsFunc(s.Changes, func(c declaration.Change) bool {
			return c.Kind == declaration.KindInstructions || c.Kind == kind && c.Name == d.Name
		})
	})
}

// promptNames are the names of all prompts on the wire, like those of tools.
func (f *Face) promptNames(servers []declaration.State) wirename.Table {
	var names []string
	for _, s := range servers {
		for _, d := range s.Approved.Definitions {
			if d.Kind == declaration.KindPrompt {
				names = append(names, s.Server.Name+"/"+d.Name)
			}
		}
	}
	return wirename.NewTable(nil, names, mostName)
}

// listPrompts is the answer to prompts/list: prompts that were approved, of servers that
// the caller could ever get one of.
func (f *Face) listPrompts(v *visit) *mcp.ListPromptsResult {
	servers, mine := f.upstreams(), f.mine(v)
	names := f.promptNames(servers)
	r := &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{}, Cacheable: mcp.Cacheable{TTLMs: listFor, CacheScope: "private"}}
	for _, s := range servers {
		if !mine[s.Server.Name+"/"+declaration.GetPrompt] {
			continue
		}
		for _, d := range definitions(s, declaration.KindPrompt) {
			name, named := names.Wire(s.Server.Name + "/" + d.Name)
			var p mcp.Prompt
			if !named || canonical.Read(d.Text, &p) != nil {
				continue
			}
			p.Name, p.Title, p.Description = name, clipped(p.Title), saidBy(s, p.Description)
			for _, a := range p.Arguments {
				a.Description = shown(a.Description)
			}
			r.Prompts = append(r.Prompts, &p)
		}
	}
	return r
}

// listTemplates is the answer to resources/templates/list.
func (f *Face) listTemplates(v *visit) *mcp.ListResourceTemplatesResult {
	mine := f.mine(v)
	r := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}, Cacheable: mcp.Cacheable{TTLMs: listFor, CacheScope: "private"}}
	for _, s := range f.upstreams() {
		if !mine[s.Server.Name+"/"+declaration.ReadResource] {
			continue
		}
		for _, d := range definitions(s, declaration.KindTemplate) {
			var t mcp.ResourceTemplate
			if canonical.Read(d.Text, &t) != nil {
				continue
			}
			t.URITemplate, t.Title, t.Description = wireURI(s.Server.Name, t.URITemplate), clipped(t.Title), saidBy(s, t.Description)
			r.ResourceTemplates = append(r.ResourceTemplates, &t)
		}
	}
	return r
}

// saidBy is a description of a server, as what it is.
func saidBy(s declaration.State, text string) string {
	if text == "" {
		return "Of the upstream server " + s.Server.Name + "."
	}
	return "Of the upstream server " + s.Server.Name + ", which says of it: " + shown(text)
}

const (
	// mostPages bounds the pages of servers in one answer, mostListed is when it is
	// long enough.
	mostPages  = 16
	mostListed = 500
)

// place is where a list of resources goes on.
type place struct {
	Server string `json:"s"`
	Cursor string `json:"c,omitempty"`
}

func (p place) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // texts always have a form
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func placeOf(cursor string) (p place, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && cursor != "" {
		err = canonical.Read(text, &p)
	}
	if err != nil {
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none of this list"}
	}
	return p, nil
}

// listResources is the answer to resources/list: of each server, one call of
// <server>/mcp.list_resources. A server of which nobody has to be asked for that is in
// it; people are not asked because a client looks around.
func (f *Face) listResources(ctx context.Context, v *visit, session *mcp.ServerSession, params *mcp.ListResourcesParams) (*mcp.ListResourcesResult, error) {
	r := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, Cacheable: mcp.Cacheable{CacheScope: "private"}}
	at := place{}
	if params != nil {
		var err error
		if at, err = placeOf(params.Cursor); err != nil {
			return nil, err
		}
	}
	mine, pages := f.mine(v), 0
	for _, s := range f.upstreams() {
		name := s.Server.Name
		if name < at.Server || !mine[name+"/"+declaration.ListResources] {
			continue
		}
		cursor := ""
		if name == at.Server {
			cursor = at.Cursor
		}
		for {
			if pages++; pages > mostPages || len(r.Resources) >= mostListed {
				r.NextCursor = place{name, cursor}.String()
				return r, nil
			}
			page := f.page(ctx, v, session, name, cursor)
			for _, one := range page.Resources {
				one.URI, one.Title, one.Description, one.Meta = wireURI(name, one.URI), clipped(one.Title), saidBy(s, one.Description), nil
				one.Icons = nil
				r.Resources = append(r.Resources, one)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
	}
	return r, nil
}

// page is one page of the resources of a server, empty when it cannot be had.
func (f *Face) page(ctx context.Context, v *visit, session *mcp.ServerSession, server, cursor string) (page mcp.ListResourcesResult) {
	input := map[string]any{}
	if cursor != "" {
		input["cursor"] = cursor
	}
	report, err := f.unasked(ctx, v, session, server+"/"+declaration.ListResources, input)
	if err != nil || report == nil {
		return page
	}
	if err := canonical.Read(report.Result, &page); err != nil {
		f.Log.WarnContext(ctx, "an upstream server lists what are no resources", slog.String("upstream", server))
		return mcp.ListResourcesResult{}
	}
	return page
}

// unasked makes a call if policy lets it run without anybody being asked. The report is
// nil when it was not made, or did not succeed.
func (f *Face) unasked(ctx context.Context, v *visit, session *mcp.ServerSession, name string, input map[string]any) (*tool.Report, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	sub := call.Submission{Caller: v.caller, Tool: name, Input: text, Session: sessionName(session.ID())}
	if would, err := f.Pipeline.Evaluate(ctx, sub); err != nil || would.Verdict.Effect() != policy.Allow {
		return nil, nil //nolint:nilerr // what cannot be called is not listed, and offers nothing
	}
	out, err := f.Pipeline.Call(ctx, sub, func(call.Event) {})
	if err != nil {
		return nil, err
	}
	if out.Report.Outcome != tool.Succeeded {
		return nil, faultIn(out.Report, "")
	}
	return &out.Report, nil
}

// complete is the answer to completion/complete. A proposal that people would have to be
// asked for is none.
func (f *Face) complete(ctx context.Context, v *visit, session *mcp.ServerSession, params *mcp.CompleteParams) (mcp.Result, error) {
	if params == nil || params.Ref == nil || params.Argument.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "completion/complete takes a ref and an argument with a name"}
	}
	ref, server := map[string]any{"type": params.Ref.Type}, ""
	switch params.Ref.Type {
	case "ref/prompt":
		ours, ok := f.promptNames(f.upstreams()).Ours(params.Ref.Name)
		if !ok {
			return nil, unknownPrompt(params.Ref.Name)
		}
		server, ref["name"], _ = strings.Cut(ours, "/")
	default:
		var ok bool
		if server, ref["uri"], ok = ownURI(params.Ref.URI); !ok {
			return nil, unknownResource(params.Ref.URI, declaredBy(session).sessionless)
		}
	}
	input := map[string]any{"ref": ref, "argument": map[string]any{"name": params.Argument.Name, "value": params.Argument.Value}}
	if c := params.Context; c != nil && len(c.Arguments) > 0 {
		input["context"] = map[string]any{"arguments": c.Arguments}
	}
	r := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	if !f.mine(v)[server+"/"+declaration.Complete] {
		return r, nil
	}
	report, err := f.unasked(ctx, v, session, server+"/"+declaration.Complete, input)
	if err != nil || report == nil {
		return r, err
	}
	var theirs mcp.CompleteResult
	if err := canonical.Read(report.Result, &theirs); err != nil {
		return r, nil //nolint:nilerr // what is no proposal is none
	}
	r.Completion = theirs.Completion
	if r.Completion.Values = slices.Clone(theirs.Completion.Values); len(r.Completion.Values) > 100 {
		r.Completion.Values, r.Completion.HasMore = r.Completion.Values[:100], true // the most that MCP has
	}
	if r.Completion.Values == nil {
		r.Completion.Values = []string{}
	}
	return r, nil
}

func unknownPrompt(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt: " + clipped(name)}
}

// unknownResource is the error of each revision.
func unknownResource(uri string, sessionless bool) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	code := int64(notFoundCode)
	if sessionless {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: "Resource not found", Data: data}
}

// uriScheme begins the URIs of upstream servers' resources on the wire:
// "palyra:<server>:<the server's own URI>". It leads nowhere but through the gateway.
const uriScheme = "palyra:"

func wireURI(server, uri string) string { return uriScheme + server + ":" + uri }

// ownURI is the server and the server's own URI of one on the wire.
func ownURI(wire string) (server, uri string, ok bool) {
	rest, ours := strings.CutPrefix(wire, uriScheme)
	server, uri, split := strings.Cut(rest, ":")
	return server, uri, ours && split && server != "" && uri != ""
}

// wireContent gives the URIs in content of a server the form that they have on the wire.
func wireContent(server string, content map[string]any) {
	named := func(m map[string]any) {
		if uri, is := m["uri"].(string); is && uri != "" {
			m["uri"] = wireURI(server, uri)
		}
	}
	switch content["type"] {
	case "resource_link":
		named(content)
	case "resource":
		if resource, is := content["resource"].(map[string]any); is {
			named(resource)
		}
	}
}

// besideResult is the answer to prompts/get and resources/read: what the server gave, as
// it came, with the gateway's record beside it.
type besideResult struct {
	mcp.ResultBase
	fields map[string]any
}

// MarshalJSON implements json.Marshaler.
func (r *besideResult) MarshalJSON() ([]byte, error) {
	fields := maps.Clone(r.fields)
	fields["_meta"] = r.Meta
	return json.Marshal(fields)
}

// getPrompt answers prompts/get.
func (f *Face) getPrompt(ctx context.Context, q *request, p *mcp.GetPromptParams) (mcp.Result, error) {
	ours, ok := f.promptNames(f.upstreams()).Ours(p.Name)
	server, name, _ := strings.Cut(ours, "/")
	if !ok || !f.mine(q.visit)[server+"/"+declaration.GetPrompt] {
		return nil, unknownPrompt(p.Name)
	}
	input := map[string]any{"name": name}
	if len(p.Arguments) > 0 {
		input["arguments"] = p.Arguments
	}
	q.responses, q.state = p.InputResponses, p.RequestState
	return q.beside(ctx, server, declaration.GetPrompt, input, func(fields map[string]any) bool {
		messages, is := fields["messages"].([]any)
		for _, m := range messages {
			message, _ := m.(map[string]any)
			if content, is := message["content"].(map[string]any); is {
				wireContent(server, content)
			}
		}
		return is
	})
}

// readResource answers resources/read.
func (f *Face) readResource(ctx context.Context, q *request, p *mcp.ReadResourceParams) (mcp.Result, error) {
	server, uri, ok := ownURI(p.URI)
	if !ok || !f.mine(q.visit)[server+"/"+declaration.ReadResource] {
		return nil, unknownResource(p.URI, q.client.sessionless)
	}
	q.responses, q.state, q.uri = p.InputResponses, p.RequestState, p.URI
	return q.beside(ctx, server, declaration.ReadResource, map[string]any{"uri": uri}, func(fields map[string]any) bool {
		contents, is := fields["contents"].([]any)
		for _, one := range contents {
			if content, is := one.(map[string]any); is {
				wireContent(server, map[string]any{"type": "resource", "resource": content})
			}
		}
		fields["ttlMs"], fields["cacheScope"] = 0, "private"
		return is
	})
}

// beside makes the call behind a method, and answers with what the server gave.
func (q *request) beside(ctx context.Context, server, name string, input map[string]any, form func(map[string]any) bool) (mcp.Result, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	q.sub.Tool, q.sub.Input = server+"/"+name, text
	q.answer = func(o call.Outcome) (mcp.Result, error) { return q.given(o, form) }
	q.client.tasks = false // calls of tools alone are tasks
	if q.digest, err = q.sub.Digest(); err != nil {
		return nil, err
	}
	return q.run(ctx)
}

// given is the answer of a call behind a method. What is no success is an error, which
// says the reason and what to do next like the result of a tool.
func (q *request) given(o call.Outcome, form func(map[string]any) bool) (mcp.Result, error) {
	r := resultOf(q.sub.Tool, o)
	if r.IsError {
		if err := faultIn(o.Report, q.uri); err != nil && o.Report.Edited == nil {
			return nil, err
		}
		return nil, errorOf(r)
	}
	var fields map[string]any
	if json.Unmarshal(o.Report.Result, &fields) != nil || !form(fields) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the upstream server gave something else than the method has"}
	}
	theirs, _ := fields["_meta"].(map[string]any)
	if q.client.sessionless {
		fields["resultType"] = complete
	}
	answer := &besideResult{fields: fields}
	answer.Meta = mcp.Meta{}
	maps.Copy(answer.Meta, theirs)
	maps.Copy(answer.Meta, r.Meta)
	return answer, nil
}

// shown is text of a server as people and models may see it, with its lines.
func shown(s string) string {
	lines := strings.Split(text.Clip(s, 8<<10), "\n")
	for i := range lines {
		lines[i] = text.Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

func inputOfURI(uri string) []byte {
	text, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return nil // texts always have a form
	}
	return text
}
