package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/core/wirename"
	declaration "palyra/internal/exec/upstream/declared"
)

// mostName is the longest tool name for which the names that clients build with the server's name
// stay within the limits of providers: "mcp__palyra__fs_read".
const mostName = wirename.Most - len("mcp__palyra__")

// listFor is how long a client may cache a list, in milliseconds. Changes are notified as well.
const listFor = 60_000

var emptySchema = json.RawMessage(`{"type":"object"}`)

// catalog is the lists of tools, prompts and resource templates for a caller.
type catalog struct {
	Config
	// named are the tool names of one revision.
	named atomic.Pointer[naming]
}

// names returns the names of all tools on the wire. They do not depend on the caller, so that a
// tool has the same name for all.
func (ct *catalog) names() wirename.Table {
	revision := ct.Tools.Revision()
	if n := ct.named.Load(); n != nil && n.revision == revision {
		return n.table
	}
	n := &naming{revision, ct.namesNow()}
	ct.named.Store(n)
	return n.table
}

// naming is the table of names for one revision of the tools.
type naming struct {
	revision uint64
	table    wirename.Table
}

func (ct *catalog) namesNow() wirename.Table {
	var own, others []string
	for _, d := range ct.Tools.Descriptors() {
		switch d.Executor {
		case tool.External: // agents run these tools themselves
		case tool.MCPUpstream:
			others = append(others, d.Name)
		default:
			own = append(own, d.Name)
		}
	}
	return wirename.NewTable(own, others, mostName)
}

// offered returns the listed tools of the caller, by name.
func (ct *catalog) offered(v *httpRequest, names wirename.Table) []tool.Descriptor {
	list := slices.DeleteFunc(ct.Catalog(v.caller), func(d tool.Descriptor) bool { return !ct.offers(d, names) })
	slices.SortFunc(list, func(a, b tool.Descriptor) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// offers reports whether a tool is listed for callers that may call it.
func (ct *catalog) offers(d tool.Descriptor, names wirename.Table) bool {
	_, named := names.Wire(d.Name)
	return named && !hidden(d) && reason.Of(ct.Tools.Unusable(d.Name)) != reason.ToolSuspended
}

// hidden reports whether a tool is never listed: the gateway calls it itself, or it implements
// another method.
func hidden(d tool.Descriptor) bool {
	_, name, _ := strings.Cut(d.Name, "/")
	return d.Executor == tool.MCPUpstream && (declaration.IsServerRequest(name) || name == declaration.Start || name == declaration.Subscribe || name == declaration.Complete)
}

// list builds the result of tools/list.
func (ct *catalog) list(v *httpRequest) *mcp.ListToolsResult {
	names := ct.names()
	r := &mcp.ListToolsResult{Tools: []*mcp.Tool{}, Cacheable: mcp.Cacheable{TTLMs: listFor, CacheScope: "private"}}
	for _, d := range ct.offered(v, names) {
		name, _ := names.Wire(d.Name)
		r.Tools = append(r.Tools, toolOf(d, name))
	}
	return r
}

func toolOf(d tool.Descriptor, name string) *mcp.Tool {
	destructive, openWorld := d.Destructive, d.OpenWorld
	return &mcp.Tool{
		Name: name, Title: d.Title, Description: d.Description, InputSchema: schemaOf(d.InputSchema),
		Annotations: &mcp.ToolAnnotations{Title: d.Title, ReadOnlyHint: d.ReadOnly, DestructiveHint: &destructive, OpenWorldHint: &openWorld},
	}
}

// headerMark makes clients repeat an argument in a header, for gateways that do not read bodies.
// This gateway reads bodies, and refuses headers that differ.
const headerMark = "x-mcp-header"

// schemaOf returns a schema for clients. Marks that the library cannot check are removed, so that
// clients do not send headers that are not compared.
func schemaOf(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return emptySchema
	}
	if !marked(schema) || checkable(schema) {
		return schema
	}
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	without(v)
	text, err := json.Marshal(v)
	if err != nil {
		return schema
	}
	return text
}

func marked(schema json.RawMessage) bool { return bytes.Contains(schema, []byte(headerMark)) }

// checkable reports whether the library accepts the marks of a schema. The library has no
// function for this check: AddTool panics for a schema that it does not accept.
func checkable(schema json.RawMessage) (ok bool) {
	defer func() { ok = recover() == nil }()
	mcp.NewServer(&mcp.Implementation{Name: "check"}, nil).AddTool(&mcp.Tool{Name: "check", InputSchema: schema}, nil)
	return true
}

// mark registers with the library the tools of a list whose headers the library must check.
// Registered tools that are no longer marked are removed.
func (s *served) mark(r *mcp.ListToolsResult) {
	was := s.marks
	s.marks = map[string]string{}
	for _, t := range r.Tools {
		schema, is := t.InputSchema.(json.RawMessage)
		if !is || !marked(schema) {
			continue
		}
		if s.marks[t.Name] = string(schema); was[t.Name] != string(schema) {
			s.AddTool(&mcp.Tool{Name: t.Name, InputSchema: schema}, nil)
		}
	}
	for name := range was {
		if _, still := s.marks[name]; !still {
			s.RemoveTools(name)
		}
	}
}

func without(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			without(one)
		}
	case map[string]any:
		delete(v, headerMark)
		for _, one := range v {
			without(one)
		}
	}
}

func digestOf(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
