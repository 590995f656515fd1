// Package wirename maps tools to names that models and MCP clients accept: letters, digits, '_'
// and '-', at most 64 of them. Policy, journal and CLI use the gateway's own names, which
// contain dots and slashes. It is a leaf.
//
// If two tools of servers map to the same name on the wire, both get none; the gateway's own
// tools keep theirs. A number or digest was rejected for MCP, because it depends on the other
// tools: after a server is added, a client with a known name would call another tool. Names for
// models are valid for one request, and there a digest is sufficient.
package wirename

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Most is the maximum length in bytes of a name on the wire.
const Most = 64

// Plain replaces invalid characters by '_'. A name longer than most bytes ends in a digest of
// the whole name.
func Plain(tool string, most int) string {
	if len(tool) > most {
		return Ending(tool, tool, most)
	}
	return replaced(tool)
}

// Ending returns the plain name of a tool, at most most bytes long, with a digest of salt at
// its end.
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

// Table maps a set of tools to their names on the wire, and back.
type Table struct {
	wire, ours map[string]string
	refused    map[string]string
}

// NewTable assigns names of at most most bytes to the gateway's own tools and to other tools.
// If two tools would get the same name, both get none, so that a new tool cannot get the name
// of a tool that clients already use. The gateway's own tools keep their names in conflicts
// with others.
func NewTable(own, others []string, most int) Table {
	t := Table{make(map[string]string, len(own)+len(others)), make(map[string]string, len(own)+len(others)), make(map[string]string)}
	t.add(own, most, make(map[string]string))
	t.add(others, most, maps.Clone(t.ours))
	return t
}

// add assigns names to tools. kept has the names that cannot be taken away from their tools.
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

// Wire returns the name of a tool on the wire, and false for a tool without a name.
func (t Table) Wire(tool string) (string, bool) {
	name, ok := t.wire[tool]
	return name, ok
}

// Ours returns the tool with a name on the wire, and false for an unknown name.
func (t Table) Ours(name string) (string, bool) {
	tool, ok := t.ours[name]
	return tool, ok
}

// Refused returns the tools without a name, each with a tool that would get the same name.
func (t Table) Refused() map[string]string { return t.refused }
