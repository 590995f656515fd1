package model

import "palyra/internal/core/wirename"

// Names translates between the gateway's names of tools, which contain dots and slashes, and the
// names in a request. No two tools of a request share a name.
type Names struct {
	wire  map[string]string
	ours  map[string]string
	taken map[string]bool
}

// NewNames assigns names to the tools of r, and to tools that the conversation calls although they
// are not available now.
func NewNames(r Request) Names {
	n := Names{wire: make(map[string]string), ours: make(map[string]string), taken: make(map[string]bool)}
	// Valid names are assigned first and stay unchanged.
	for _, allowed := range []bool{true, false} {
		for _, tool := range r.Tools {
			if (wirename.Plain(tool.Name, wirename.Most) == tool.Name) == allowed {
				n.ours[n.assign(tool.Name)] = tool.Name
			}
		}
	}
	for _, m := range r.Messages {
		for _, call := range m.Calls {
			n.assign(call.Tool)
		}
	}
	return n
}

// Wire returns the name in the request of a tool known to NewNames.
func (n Names) Wire(tool string) string { return n.wire[tool] }

// Ours returns the tool for a name that the model wrote. An unknown name is returned unchanged.
func (n Names) Ours(written string) string {
	if tool, ok := n.ours[written]; ok {
		return tool
	}
	return written
}

// assign returns the name of a tool: the plain name, or a name with a digest suffix if the
// plain name is taken.
func (n Names) assign(tool string) string {
	if name, ok := n.wire[tool]; ok {
		return name
	}
	name := wirename.Plain(tool, wirename.Most)
	for salt := tool; n.taken[name]; salt += "+" {
		name = wirename.Ending(tool, salt, wirename.Most)
	}
	n.wire[tool], n.taken[name] = name, true
	return name
}
