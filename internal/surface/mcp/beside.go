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

// The prompts, resources and completions of upstream servers are served by their MCP methods. Each
// method makes a call of a tool that the gateway defines for the server, which passes through the
// pipeline like any other.

// usableTools returns the tools that the caller could ever call, by name.
func (ct *catalog) usableTools(v *httpRequest) map[string]bool {
	list := make(map[string]bool)
	for _, d := range ct.Catalog(v.caller) {
		if reason.Of(ct.Tools.Unusable(d.Name)) != reason.ToolSuspended {
			list[d.Name] = true
		}
	}
	return list
}

// upstreams returns the upstream servers with their approved definitions, ordered by name.
func (ct *catalog) upstreams() []declaration.State {
	if ct.Upstreams == nil {
		return nil
	}
	return ct.Upstreams()
}

// definitions returns the approved definitions of a kind that are not suspended.
func definitions(s declaration.State, kind declaration.Kind) []declaration.Definition {
	return slices.DeleteFunc(slices.Clone(s.Approved.Definitions), func(d declaration.Definition) bool {
		return d.Kind != kind || slices.ContainsFunc(s.Changes, func(c declaration.Change) bool {
			return c.Kind == declaration.KindInstructions || c.Kind == kind && c.Name == d.Name
		})
	})
}

// promptNames returns the table that maps prompts to their names on the wire, as for tools.
func (ct *catalog) promptNames(servers []declaration.State) wirename.Table {
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

// listPrompts builds the result of prompts/list: the approved prompts of the servers whose prompts
// the caller may get.
func (ct *catalog) listPrompts(v *httpRequest) *mcp.ListPromptsResult {
	servers, mine := ct.upstreams(), ct.usableTools(v)
	names := ct.promptNames(servers)
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
				a.Description = visibleLines(a.Description)
			}
			r.Prompts = append(r.Prompts, &p)
		}
	}
	return r
}

// listTemplates builds the result of resources/templates/list.
func (ct *catalog) listTemplates(v *httpRequest) *mcp.ListResourceTemplatesResult {
	mine := ct.usableTools(v)
	r := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}, Cacheable: mcp.Cacheable{TTLMs: listFor, CacheScope: "private"}}
	for _, s := range ct.upstreams() {
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

// saidBy returns a description that names the upstream server as its author.
func saidBy(s declaration.State, text string) string {
	if text == "" {
		return "Of the upstream server " + s.Server.Name + "."
	}
	return "Of the upstream server " + s.Server.Name + ", which describes it as: " + visibleLines(text)
}

const (
	// mostPages bounds the number of upstream pages in one result. A result ends after the page
	// with which it reaches mostListed entries.
	mostPages  = 16
	mostListed = 500
)

// place is the position at which a list of resources continues.
type place struct {
	Server string `json:"s"`
	Cursor string `json:"c,omitempty"`
}

func (p place) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // strings always encode
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func placeOf(cursor string) (p place, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && cursor != "" {
		err = canonical.Read(text, &p)
	}
	if err != nil {
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not valid for this list"}
	}
	return p, nil
}

// listResources builds the result of resources/list by one call of <server>/mcp.list_resources for
// each server that needs no approval. Listing never requests an approval.
func (f *Server) listResources(ctx context.Context, v *httpRequest, session *mcp.ServerSession, params *mcp.ListResourcesParams) (*mcp.ListResourcesResult, error) {
	r := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, Cacheable: mcp.Cacheable{CacheScope: "private"}}
	at := place{}
	if params != nil {
		var err error
		if at, err = placeOf(params.Cursor); err != nil {
			return nil, err
		}
	}
	mine, pages := f.catalog.usableTools(v), 0
	for _, s := range f.catalog.upstreams() {
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

// page returns one page of the resources of a server, empty if the server is not available.
func (f *Server) page(ctx context.Context, v *httpRequest, session *mcp.ServerSession, server, cursor string) (page mcp.ListResourcesResult) {
	input := map[string]any{}
	if cursor != "" {
		input["cursor"] = cursor
	}
	report, err := f.unasked(ctx, v, session, server+"/"+declaration.ListResources, input)
	if err != nil || report == nil {
		return page
	}
	if err := canonical.Read(report.Result, &page); err != nil {
		f.Log.WarnContext(ctx, "an upstream server returned a malformed list of resources", slog.String("upstream", server))
		return mcp.ListResourcesResult{}
	}
	return page
}

// unasked makes a call if policy allows it without approval. The report is nil if the call was not
// made or failed.
func (f *Server) unasked(ctx context.Context, v *httpRequest, session *mcp.ServerSession, name string, input map[string]any) (*tool.Report, error) {
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

// complete builds the result of completion/complete. It is empty if the call would need approval.
func (f *Server) complete(ctx context.Context, v *httpRequest, session *mcp.ServerSession, params *mcp.CompleteParams) (mcp.Result, error) {
	if params == nil || params.Ref == nil || params.Argument.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "completion/complete requires a ref and an argument with a name"}
	}
	ref, server := map[string]any{"type": params.Ref.Type}, ""
	switch params.Ref.Type {
	case "ref/prompt":
		ours, ok := f.catalog.promptNames(f.catalog.upstreams()).Ours(params.Ref.Name)
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
	if !f.catalog.usableTools(v)[server+"/"+declaration.Complete] {
		return r, nil
	}
	report, err := f.unasked(ctx, v, session, server+"/"+declaration.Complete, input)
	if err != nil || report == nil {
		return r, err
	}
	var theirs mcp.CompleteResult
	if err := canonical.Read(report.Result, &theirs); err != nil {
		return r, nil //nolint:nilerr // an invalid completion is omitted
	}
	r.Completion = theirs.Completion
	if r.Completion.Values = slices.Clone(theirs.Completion.Values); len(r.Completion.Values) > 100 {
		r.Completion.Values, r.Completion.HasMore = r.Completion.Values[:100], true // the maximum in MCP
	}
	if r.Completion.Values == nil {
		r.Completion.Values = []string{}
	}
	return r, nil
}

func unknownPrompt(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt: " + clipped(name)}
}

// unknownResource returns the error that the client's revision defines for an unknown resource.
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

// uriScheme is the scheme of upstream resources on the wire: "palyra:<server>:<the server's own
// URI>". It resolves only through the gateway.
const uriScheme = "palyra:"

func wireURI(server, uri string) string { return uriScheme + server + ":" + uri }

// ownURI splits a URI on the wire into the server and the server's own URI.
func ownURI(wire string) (server, uri string, ok bool) {
	rest, ours := strings.CutPrefix(wire, uriScheme)
	server, uri, split := strings.Cut(rest, ":")
	return server, uri, ours && split && server != "" && uri != ""
}

// wireContent converts the URIs in content of a server to their form on the wire.
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

// besideResult is the result of prompts/get and resources/read: the server's result unchanged, with
// the gateway's record added.
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
func (f *Server) getPrompt(ctx context.Context, q *request, p *mcp.GetPromptParams) (mcp.Result, error) {
	ours, ok := f.catalog.promptNames(f.catalog.upstreams()).Ours(p.Name)
	server, name, _ := strings.Cut(ours, "/")
	if !ok || !f.catalog.usableTools(q.httpRequest)[server+"/"+declaration.GetPrompt] {
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
func (f *Server) readResource(ctx context.Context, q *request, p *mcp.ReadResourceParams) (mcp.Result, error) {
	server, uri, ok := ownURI(p.URI)
	if !ok || !f.catalog.usableTools(q.httpRequest)[server+"/"+declaration.ReadResource] {
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

// beside makes the call of a method and returns the server's result.
func (q *request) beside(ctx context.Context, server, name string, input map[string]any, form func(map[string]any) bool) (mcp.Result, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	q.sub.Tool, q.sub.Input = server+"/"+name, text
	q.answer = func(o call.Outcome) (mcp.Result, error) { return q.given(o, form) }
	q.client.tasks = false // only calls of tools can be tasks
	if q.digest, err = q.sub.Digest(); err != nil {
		return nil, err
	}
	return q.run(ctx)
}

// given returns the result of a method's call. A failure is an error with the reason and the next
// step, like the result of a tool.
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
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the upstream server returned a malformed result for the method"}
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

// visibleLines makes a server's text safe for display and keeps its line breaks.
func visibleLines(s string) string {
	lines := strings.Split(text.Clip(s, 8<<10), "\n")
	for i := range lines {
		lines[i] = text.Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

func inputOfURI(uri string) []byte {
	text, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return nil // strings always encode
	}
	return text
}
