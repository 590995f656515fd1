package upstream

import (
	"encoding/json"
	"slices"
	"strings"
)

// toolArguments are argument names that select the tool to call, folded: lower case, without '_'
// and '-'.
var toolArguments = []string{"tool", "toolname", "toolid", "tools", "toolnames", "toolcalls"}

// callers are parts of the names of tools that call other tools, folded.
var callers = []string{"calltool", "runtool", "executetool", "invoketool", "usetool", "toolcall", "toolexec", "batchcall", "multitool"}

// metaArguments returns JSON Pointers of the arguments that name other tools, for tools that
// call other tools ("meta tools"). It returns nil for all other tools. A tool is a meta tool if
// one of its arguments has a name in toolArguments, or if its own name contains one of callers.
// In the second case every argument may name a tool. False positives are acceptable: they raise
// the risk of a call and hide nothing.
func metaArguments(name string, schema any) []string {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	calls := slices.ContainsFunc(callers, func(part string) bool { return strings.Contains(bare(name), part) })
	var pointers []string
	for property := range properties {
		if calls || slices.Contains(toolArguments, bare(property)) {
			pointers = append(pointers, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(property))
		}
	}
	if calls && len(pointers) == 0 {
		pointers = []string{""} // anywhere in the input
	}
	slices.Sort(pointers)
	return pointers
}

func bare(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", "/", "").Replace(strings.ToLower(name))
}

// at returns all texts of an input at and below a JSON Pointer of one segment.
func at(input json.RawMessage, pointer string) []string {
	var value any
	if json.Unmarshal(input, &value) != nil {
		return nil // the input was checked against the schema before
	}
	if pointer != "" {
		object, _ := value.(map[string]any)
		value = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[1:])]
	}
	var texts []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(value)
	return texts
}
