package upstream

import (
	"encoding/json"
	"slices"
	"strings"
)

// toolArguments are names of arguments that say which tool is to be called, folded:
// without '_' and '-', in small letters.
var toolArguments = []string{"tool", "toolname", "toolid", "tools", "toolnames", "toolcalls"}

// callers are parts of the names of tools that call others, folded.
var callers = []string{"calltool", "runtool", "executetool", "invoketool", "usetool", "toolcall", "toolexec", "batchcall", "multitool"}

// metaArguments are JSON Pointers of the arguments of a tool that name other tools, for
// tools that call others ("meta tools"); nil for all others. An argument named like
// one is enough, and so is the tool's own name: then every argument that is a text may
// name a tool. It errs on the side of seeing one: what it sees is asked about and
// never hidden.
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

// at are the texts in an input at a JSON Pointer of one step, and below it.
func at(input json.RawMessage, pointer string) []string {
	var value any
	if json.Unmarshal(input, &value) != nil {
		return nil // the schema was checked before
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
