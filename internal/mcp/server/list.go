package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/wirename"
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
	list := slices.DeleteFunc(f.Catalog(v.caller), func(d tool.Descriptor) bool {
		_, named := names.Wire(d.Name)
		return !named || reason.Of(f.Tools.Unusable(d.Name)) == reason.ToolSuspended
	})
	slices.SortFunc(list, func(a, b tool.Descriptor) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return list
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
// that do not read bodies. This one does, and a header is one more thing that could say
// something else.
const headerMark = "x-mcp-header"

func schemaOf(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return emptySchema
	}
	if !bytes.Contains(schema, []byte(headerMark)) {
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

func digestOf(r *mcp.ListToolsResult) string {
	text, err := json.Marshal(r.Tools)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
