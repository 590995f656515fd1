package upstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
)

// Limits of the definitions of one server.
const (
	mostDefinitions = 512
	mostText        = 64 << 10
	mostSchemaBytes = 64 << 10
	mostDescription = 8 << 10
)

// toolForm is the accepted form of a tool's name.
var toolForm = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// sighting collects the definitions of a server.
type sighting struct {
	declared.Sight
	taken map[string][]string
	// meta are the _meta keys that its tools accept as an argument.
	meta []string
}

func newSighting(meta []string) *sighting {
	return &sighting{taken: map[string][]string{}, meta: meta}
}

func (s *sighting) leave(what, format string, args ...any) {
	const most = 64
	if len(s.LeftOut) < most {
		s.LeftOut = append(s.LeftOut, clean(what, 200)+": "+clean(fmt.Sprintf(format, args...), 500))
	}
}

// cut records that the pages of a list from n on are missing.
func (s *sighting) cut(of string, n int, why string) {
	s.Incomplete = true
	s.leave("the rest of the "+of, "page %d of the list is not accepted: %s", n, why)
}

// full reports whether the limit of definitions is reached.
func (s *sighting) full() bool { return len(s.Definitions) >= mostDefinitions }

// add adds a definition and reports whether it was accepted.
func (s *sighting) add(kind declared.Kind, name string, content any) bool {
	text, err := canonical.Marshal(content)
	digest := canonical.Digest(text)
	switch {
	case slices.ContainsFunc(s.Definitions, func(d declared.Definition) bool { return d.Kind == kind && d.Name == name && d.Digest == digest }):
		return false // the name is a duplicate
	case s.full():
		s.leave(string(kind)+" "+name, "the server has more than %d definitions", mostDefinitions)
	case err != nil:
		s.leave(string(kind)+" "+name, "its definition has no canonical form: %v", err)
	case len(text) > mostSchemaBytes+mostText:
		s.leave(string(kind)+" "+name, "its definition has %d bytes", len(text))
	default:
		s.Definitions = append(s.Definitions, declared.Definition{Kind: kind, Name: name, Digest: digest, Text: text})
		folded := string(kind) + " " + fold(name)
		s.taken[folded] = append(s.taken[folded], name)
		return true
	}
	return false
}

// fold returns the same key for all names that a person, or their form on the wire, could
// confuse.
func fold(name string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(name))
}

// tool adds a tool if its name and its schema are valid.
func (s *sighting) tool(t *mcp.Tool) {
	what := "tool " + t.Name
	if t.Meta[faultyKey] != nil {
		s.leave(what, "its definition does not follow the protocol")
		return
	}
	if !toolForm.MatchString(t.Name) {
		s.leave(what, "a name is 1 to 128 of A-Z, a-z, 0-9, '_', '.' and '-'")
		return
	}
	if strings.HasPrefix(strings.ToLower(t.Name), declared.Reserved) {
		s.leave(what, "names that begin with %s are reserved for the gateway", declared.Reserved)
		return
	}
	var schema []byte
	extended, err := withMeta(t.InputSchema, s.meta)
	if err == nil {
		schema, err = canonical.Marshal(extended)
	}
	if n := len(schema); err == nil && n > mostSchemaBytes {
		err = fmt.Errorf("it has %d bytes, and the limit is %d", n, mostSchemaBytes)
	}
	var unchecked []tool.Unchecked
	if err == nil {
		unchecked, err = checkable(schema)
	}
	if err != nil {
		s.leave(what, "its input schema is not valid: %v", err)
		return
	}
	bare := *t
	bare.Meta, bare.Icons = nil, nil
	if s.add(declared.KindTool, t.Name, bare) {
		s.notChecked(what, unchecked)
	}
}

// checkable lists the schema keywords that calls are not checked against. A schema that compiles
// here also compiles for calls.
func checkable(schema []byte) ([]tool.Unchecked, error) {
	_, unchecked, err := tool.Checkable(schema)
	if err == nil {
		_, err = tool.Descriptor{Executor: tool.MCPUpstream, InputSchema: schema}.CompileInput()
	}
	return unchecked, err
}

// notChecked records keywords that the server itself must check.
func (s *sighting) notChecked(what string, unchecked []tool.Unchecked) {
	const most, mostOfTool = 256, 8
	for i, u := range unchecked {
		line := u.String()
		if i == mostOfTool {
			line = fmt.Sprintf("%d more keywords", len(unchecked)-i)
		}
		if i > mostOfTool || len(s.Unchecked) >= most {
			return
		}
		s.Unchecked = append(s.Unchecked, clean(what+": "+line, 400))
	}
}

// done removes colliding names, because a call could not identify one of them.
func (s *sighting) done() declared.Sight {
	for folded, names := range s.taken {
		if len(names) < 2 {
			continue
		}
		slices.Sort(names)
		s.leave(strings.SplitN(folded, " ", 2)[0]+" "+strings.Join(names, ", "), "the names collide, so all of them are skipped")
		s.Definitions = slices.DeleteFunc(s.Definitions, func(d declared.Definition) bool {
			return string(d.Kind)+" "+fold(d.Name) == folded
		})
	}
	slices.SortFunc(s.Definitions, func(a, b declared.Definition) int { return strings.Compare(a.Key(), b.Key()) })
	slices.Sort(s.LeftOut)
	slices.Sort(s.Unchecked)
	return s.Sight
}
