package model

import "palyra/internal/core/wirename"

// Names translates between the gateway's names of tools, which hold dots and
// slashes, and those of a request. No two tools of a request share a name.
type Names struct {
	wire  map[string]string
	ours  map[string]string
	taken map[string]bool
}

// NewNames names the tools of r, and those that the conversation calls though
// they are not, or no longer, on offer.
func NewNames(r Request) Names {
	n := Names{wire: make(map[string]string), ours: make(map[string]string), taken: make(map[string]bool)}
	// A name that is allowed as it is keeps itself, whatever the others are.
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

// Wire is the name in the request of a tool that NewNames saw.
func (n Names) Wire(tool string) string { return n.wire[tool] }

// Ours is the tool that the model means. A name that is not on offer comes
// back as the model wrote it.
func (n Names) Ours(written string) string {
	if tool, ok := n.ours[written]; ok {
		return tool
	}
	return written
}

// assign gives a tool its name: the plain one, or, when another tool has that,
// one that ends in a digest.
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
