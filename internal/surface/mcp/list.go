package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/core/wirename"
	declaration "palyra/internal/exec/upstream/declared"
)

// mostName is how long a name may be so that clients which put the server's before it
// stay within what providers take: "mcp__palyra__fs_read".
const mostName = wirename.Most - len("mcp__palyra__")

// listFor is how long a client may take a list for the newest, in milliseconds. It is
// told of changes besides.
const listFor = 60_000

var emptySchema = json.RawMessage(`{"type":"object"}`)

// names are those of all tools on the wire. They do not depend on who asks, so that a
// tool keeps its name whatever policy shows to whom.
func (f *Face) names() wirename.Table {
	revision := f.Tools.Revision()
	if n := f.named.Load(); n != nil && n.revision == revision {
		return n.table
	}
	n := &naming{revision, f.namesNow()}
	f.named.Store(n)
	return n.table
}

// naming are the names of the tools of one revision.
type naming struct {
	revision uint64
	table    wirename.Table
}

func (f *Face) namesNow() wirename.Table {
	var own, others []string
	for _, d := range f.Tools.Descriptors() {
		switch d.Executor {
		case tool.External: // the agent runs those itself
		case tool.MCPUpstream:
			others = append(others, d.Name)
		default:
			own = append(own, d.Name)
		}
	}
	return wirename.NewTable(own, others, mostName)
}

// offered are the tools that the caller is shown, by name.
func (f *Face) offered(v *visit, names wirename.Table) []tool.Descriptor {
	list := slices.DeleteFunc(f.Catalog(v.caller), func(d tool.Descriptor) bool { return !f.offers(d, names) })
	slices.SortFunc(list, func(a, b tool.Descriptor) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// offers reports whether whoever may call a tool is shown it.
func (f *Face) offers(d tool.Descriptor, names wirename.Table) bool {
	_, named := names.Wire(d.Name)
	return named && !hidden(d) && reason.Of(f.Tools.Unusable(d.Name)) != reason.ToolSuspended
}

// hidden reports whether a tool is none for clients: the gateway calls it itself, or it
// is behind a method of theirs and of no use without it.
func hidden(d tool.Descriptor) bool {
	_, name, _ := strings.Cut(d.Name, "/")
	return d.Executor == tool.MCPUpstream && (declaration.Asked(name) || name == declaration.Start || name == declaration.Subscribe || name == declaration.Complete)
}

// list is the answer to tools/list.
func (f *Face) list(v *visit) *mcp.ListToolsResult {
	names := f.names()
	r := &mcp.ListToolsResult{Tools: []*mcp.Tool{}, Cacheable: mcp.Cacheable{TTLMs: listFor, CacheScope: "private"}}
	for _, d := range f.offered(v, names) {
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

// headerMark is how a schema has a client repeat an argument in a header, for gateways
// that do not read bodies. This one does, and refuses headers that say something else.
const headerMark = "x-mcp-header"

// schemaOf is a schema as clients get it. Marks that the library cannot check are taken
// out, so that no client sends what nobody compares.
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

// checkable reports whether the library takes the marks of a schema. It has no function
// that says so, and panics.
func checkable(schema json.RawMessage) (ok bool) {
	defer func() { ok = recover() == nil }()
	mcp.NewServer(&mcp.Implementation{Name: "check"}, nil).AddTool(&mcp.Tool{Name: "check", InputSchema: schema}, nil)
	return true
}

// mark gives the library the tools of a list whose headers it has to check. It reports
// whether others were there, of which it has told the sessions then.
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
