// Package wirename gives tools the names that models and MCP clients take: letters,
// digits, '_' and '-', at most 64 of them. Policy, journal and CLI keep the gateway's
// own names, which hold dots and slashes. It is a leaf.
//
// Two tools of servers that map to the same name on the wire get none, and the gateway's own tools
// keep theirs. A number or digest was rejected for MCP: it depends on the other tools, so a client
// that knows a name would call another tool after a server is added. Names for models live for one
// request, and there a digest is sufficient.
package wirename

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Most is how many bytes a name on the wire may have.
const Most = 64

// Plain replaces invalid characters by '_', and ends names longer than most bytes with a digest of
// the whole.
func Plain(tool string, most int) string {
	if len(tool) > most {
		return Ending(tool, tool, most)
	}
	return replaced(tool)
}

// Ending is the plain name of a tool, at most so long, that ends in a digest of salt.
func Ending(tool, salt string, most int) string {
	sum := sha256.Sum256([]byte(salt))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := replaced(tool)
	return name[:min(len(name), most-len(suffix))] + suffix
}

func replaced(tool string) string {
	name := []byte(tool)
	for i, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			name[i] = '_'
		}
	}
	if len(name) == 0 {
		return "_"
	}
	return string(name)
}

// Table is the names of a set of tools, there and back.
type Table struct {
	wire, ours map[string]string
	refused    map[string]string
}

// NewTable names the gateway's own tools and other tools, in at most most bytes. Two tools that
// would get the same name both get none, so that a new tool cannot take the name of a tool that
// clients already use. The gateway's own tools keep their names against others.
func NewTable(own, others []string, most int) Table {
	t := Table{make(map[string]string, len(own)+len(others)), make(map[string]string, len(own)+len(others)), make(map[string]string)}
	t.add(own, most, make(map[string]string))
	t.add(others, most, maps.Clone(t.ours))
	return t
}

// add names tools; kept are the names that stay with the tools that have them.
func (t Table) add(tools []string, most int, kept map[string]string) {
	tried := make(map[string]string)
	for _, tool := range tools {
		name := Plain(tool, most)
		other, taken := kept[name]
		if !taken {
			other, taken = tried[name]
		}
		tried[name] = tool
		switch {
		case !taken:
			t.wire[tool], t.ours[name] = name, tool
		case other != tool:
			t.refused[tool] = other
			if kept[name] != other {
				t.refused[other] = tool
				delete(t.wire, other)
				delete(t.ours, name)
			}
		}
	}
}

// Wire is the name of a tool on the wire, false for one that has none.
func (t Table) Wire(tool string) (string, bool) {
	name, ok := t.wire[tool]
	return name, ok
}

// Ours is the tool of a name on the wire, false for a name of none.
func (t Table) Ours(name string) (string, bool) {
	tool, ok := t.ours[name]
	return tool, ok
}

// Refused are the tools without a name, each with one that would have the same.
func (t Table) Refused() map[string]string { return t.refused }
