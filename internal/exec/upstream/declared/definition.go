package declared

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
)

// Kind is what a definition is of.
type Kind string

// The kinds. A server has one text of instructions at most; its name is "".
const (
	KindTool         Kind = "tool"
	KindPrompt       Kind = "prompt"
	KindTemplate     Kind = "resource_template"
	KindInstructions Kind = "instructions"
)

// Reserved is what the names of the tools begin with that the gateway makes for each
// server: "<server>/mcp.read_resource".
const Reserved = "mcp."

// Tools that the gateway makes for a server.
const (
	Complete      = Reserved + "complete"
	GetPrompt     = Reserved + "get_prompt"
	ListResources = Reserved + "list_resources"
	ReadResource  = Reserved + "read_resource"
	Subscribe     = Reserved + "subscribe"
)

// Tools that the gateway makes for what a server asks. It calls them itself; clients
// cannot, and need not be told of them.
const (
	Elicit    = Reserved + "elicit"
	ListRoots = Reserved + "list_roots"
	Sample    = Reserved + "sample"
)

// Start is the tool that starts a server which gets secrets as they are.
const Start = Reserved + "start"

// Asked reports whether a tool is one of those that clients cannot call, by its name
// without the server's.
func Asked(name string) bool { return name == Elicit || name == ListRoots || name == Sample }

// Definition is something that a server says about itself, and that models act on.
type Definition struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Digest is the SHA-256 of Text, "sha256:<hex>".
	Digest string `json:"digest"`
	// Text is what the server said, in canonical JSON.
	Text json.RawMessage `json:"text"`
}

// Key tells the definitions of one server apart.
func (d Definition) Key() string { return string(d.Kind) + " " + d.Name }

// Called names a definition for people.
func (d Definition) Called() string {
	if d.Kind == KindInstructions {
		return "the instructions"
	}
	return strings.ReplaceAll(string(d.Kind), "_", " ") + " " + d.Name
}

// Sight is what was seen of a server at one time.
type Sight struct {
	Definitions []Definition `json:"definitions"`
	// Incomplete says that a page of a list could not be read: its definitions are missing.
	Incomplete bool `json:"incomplete,omitempty"`
	// LeftOut says of each definition that is not taken, why.
	LeftOut []string `json:"left_out,omitempty"`
	// Unchecked are the keywords of schemas that calls are not checked against: the server
	// has to.
	Unchecked []string `json:"unchecked,omitempty"`
	// Resources, Prompts, Completions and Subscriptions say what the server offers
	// beside tools, Logs that it takes a level for its log.
	Resources     bool `json:"resources,omitempty"`
	Prompts       bool `json:"prompts,omitempty"`
	Completions   bool `json:"completions,omitempty"`
	Subscriptions bool `json:"subscriptions,omitempty"`
	Logs          bool `json:"logs,omitempty"`
	// Implementation is what the server calls itself, and Protocol the revision that
	// it speaks.
	Implementation string `json:"implementation,omitempty"`
	Protocol       string `json:"protocol,omitempty"`
}

// Digest is over all definitions: it says what somebody approves.
func (s Sight) Digest() string {
	keys := make([]string, len(s.Definitions))
	for i, d := range s.Definitions {
		keys[i] = d.Key() + " " + d.Digest
	}
	digest, err := canonical.DigestOf(keys)
	if err != nil {
		return "" // texts always have one
	}
	return digest
}

// Change is a difference between what was approved of a server and what it says now.
type Change struct {
	Kind Kind
	Name string
	// Was and Is are the texts; nil means that there was, or is, none.
	Was, Is json.RawMessage
}

// Word is added, removed or changed.
func (c Change) Word() string {
	switch {
	case c.Was == nil:
		return "added"
	case c.Is == nil:
		return "removed"
	}
	return "changed"
}

// Differences are sorted by kind and name.
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
