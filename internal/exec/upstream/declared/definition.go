package declared

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
)

// Kind is the kind of a definition.
type Kind string

// The kinds of definitions. A server has at most one instructions text; its name is "".
const (
	KindTool         Kind = "tool"
	KindPrompt       Kind = "prompt"
	KindTemplate     Kind = "resource_template"
	KindInstructions Kind = "instructions"
)

// Reserved is the name prefix of the tools that the gateway makes for each server, such as
// "<server>/mcp.read_resource".
const Reserved = "mcp."

// Names of the tools that the gateway makes for a server.
const (
	Complete      = Reserved + "complete"
	GetPrompt     = Reserved + "get_prompt"
	ListResources = Reserved + "list_resources"
	ReadResource  = Reserved + "read_resource"
	Subscribe     = Reserved + "subscribe"
)

// Names of the tools that the gateway makes for server requests. The gateway calls them itself.
// Clients cannot call them, and listings may omit them.
const (
	Elicit    = Reserved + "elicit"
	ListRoots = Reserved + "list_roots"
	Sample    = Reserved + "sample"
)

// Start is the name of the tool that starts a server which receives secrets as plain values.
const Start = Reserved + "start"

// IsServerRequest reports whether clients cannot call a tool. name is the tool's name without the server.
func IsServerRequest(name string) bool { return name == Elicit || name == ListRoots || name == Sample }

// Definition is a statement of a server about itself that models act on: a tool, a prompt, a
// resource template or its instructions.
type Definition struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Digest is the SHA-256 of Text, "sha256:<hex>".
	Digest string `json:"digest"`
	// Text is the definition as the server sent it, in canonical JSON.
	Text json.RawMessage `json:"text"`
}

// Key identifies the definition among the definitions of one server.
func (d Definition) Key() string { return string(d.Kind) + " " + d.Name }

// Called returns the definition's name for display.
func (d Definition) Called() string {
	if d.Kind == KindInstructions {
		return "the instructions"
	}
	return strings.ReplaceAll(string(d.Kind), "_", " ") + " " + d.Name
}

// Sight is a snapshot of the definitions of a server.
type Sight struct {
	Definitions []Definition `json:"definitions"`
	// Incomplete reports that a page of a list was not readable, so its definitions are missing.
	Incomplete bool `json:"incomplete,omitempty"`
	// LeftOut lists the reason for each definition that was skipped.
	LeftOut []string `json:"left_out,omitempty"`
	// Unchecked lists the schema keywords that the gateway does not check in calls; the server
	// must check them.
	Unchecked []string `json:"unchecked,omitempty"`
	// Resources, Prompts, Completions and Subscriptions report the features that the server
	// offers in addition to tools. Logs reports that it accepts a log level.
	Resources     bool `json:"resources,omitempty"`
	Prompts       bool `json:"prompts,omitempty"`
	Completions   bool `json:"completions,omitempty"`
	Subscriptions bool `json:"subscriptions,omitempty"`
	Logs          bool `json:"logs,omitempty"`
	// Implementation is the name and version that the server reports, and Protocol its protocol
	// revision.
	Implementation string `json:"implementation,omitempty"`
	Protocol       string `json:"protocol,omitempty"`
}

// Digest is computed over all definitions. An approval is bound to it.
func (s Sight) Digest() string {
	keys := make([]string, len(s.Definitions))
	for i, d := range s.Definitions {
		keys[i] = d.Key() + " " + d.Digest
	}
	digest, err := canonical.DigestOf(keys)
	if err != nil {
		return "" // definitions always have a canonical form
	}
	return digest
}

// Change is a difference between an approved definition and the current one.
type Change struct {
	Kind Kind
	Name string
	// Was and Is are the texts; nil means that the definition did not exist or no longer exists.
	Was, Is json.RawMessage
}

// Word returns "added", "removed" or "changed".
func (c Change) Word() string {
	switch {
	case c.Was == nil:
		return "added"
	case c.Is == nil:
		return "removed"
	}
	return "changed"
}

// Differences returns the changes from approved to seen, sorted by kind and name.
func Differences(approved, seen []Definition) []Change {
	now := make(map[string]Definition, len(seen))
	for _, d := range seen {
		now[d.Key()] = d
	}
	var list []Change
	for _, was := range approved {
		is, there := now[was.Key()]
		delete(now, was.Key())
		switch {
		case !there:
			list = append(list, Change{Kind: was.Kind, Name: was.Name, Was: was.Text})
		case is.Digest != was.Digest:
			list = append(list, Change{Kind: was.Kind, Name: was.Name, Was: was.Text, Is: is.Text})
		}
	}
	for _, d := range now {
		list = append(list, Change{Kind: d.Kind, Name: d.Name, Is: d.Text})
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return list
}
