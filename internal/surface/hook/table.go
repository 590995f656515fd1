package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// row is what the gateway knows of one tool of an agent.
type row struct {
	// hook are the names by which the agent's hook calls it; the first is that of the
	// version that was looked at.
	hook []string
	// name comes after "<agent>/".
	name string
	act  tool.Act
	caps []tool.Capability
	// paths, urls and line are the members of the input that name files, addresses,
	// and a line for a shell, or what is typed into a program.
	paths, urls []string
	line        string
	// open says that it reads from the open world.
	open bool
	// sensitive makes it ask whatever its capabilities are.
	sensitive bool
	// own says that the agent asks its own user beside: it is told nothing but that the
	// gateway does not object.
	own bool
	// wrap says that the input is {"tool", "input"} or {"server", "tool", "input"}, of
	// a tool that has no row of its own.
	wrap bool
	// lasts is how long the agent may take until it reports, 0 for usual.
	lasts time.Duration
}

// How long agents take until they report.
const (
	usually = 15 * time.Minute
	// agents of agents work for hours.
	longest = 12 * time.Hour
)

// Rows without a place of their own in an agent's table.
var (
	unknownRow = row{name: "other", act: tool.ActUnknown, sensitive: true, open: true, wrap: true, lasts: longest}
	mcpRow     = row{name: "mcp", act: tool.ActMCP, caps: []tool.Capability{tool.Network}, open: true, sensitive: true, wrap: true, lasts: time.Hour}
)

var (
	reads    = []tool.Capability{tool.FilesystemRead}
	writes   = []tool.Capability{tool.FilesystemRead, tool.FilesystemWrite}
	executes = []tool.Capability{tool.FilesystemRead, tool.FilesystemWrite, tool.Network, tool.ProcessExec}
	network  = []tool.Capability{tool.Network}
)

// Agent is one kind of agent with its table.
type Agent struct {
	// Name is how the route, policies and commands call it.
	Name string
	// Seen is the version whose tools and hooks the table was made from; "" where the
	// protocol is the gateway's own.
	Seen string
	rows []row
	read func(body []byte) (*Message, error)
	// answer writes what the hook prints; no bytes for nothing.
	answer func(m *Message, a Answer) []byte
	// edits is true for one whose hooks can give a call other input.
	edits bool
	// reasonBy says how its hook brings a reason of the requester, "" where it cannot.
	reasonBy string
}

// noEdit is why people cannot change a call of a row, "" where they can.
func (a *Agent) noEdit(r row) string {
	switch {
	case !a.edits:
		return "the hooks of " + a.Name + " take a yes or a no, and no other input"
	case r.wrap, r.own:
		return "the hook takes no other input for this tool"
	default:
		return ""
	}
}

// Agents are all of them.
var Agents = []*Agent{&claudeCode, &codex, &generic}

// find returns the agent of a name, nil for none.
func find(name string) *Agent {
	for _, a := range Agents {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Knows reports whether a tool of the agent, as its hook calls it, has a row.
func (a *Agent) Knows(hookName string) bool {
	return slices.ContainsFunc(a.rows, func(r row) bool { return slices.Contains(r.hook, hookName) })
}

// mcpPrefix begins the names of tools of MCP servers in hooks.
const mcpPrefix = "mcp__"

// rowOf returns the row of a tool, and its server and name there for one of an MCP
// server. What is not known has the row of what is unknown.
func (a *Agent) rowOf(m *Message) (r row, server, name string) {
	if rest, ok := strings.CutPrefix(m.Tool, mcpPrefix); ok {
		server, name, _ = strings.Cut(rest, "__")
		return mcpRow, server, name
	}
	for _, r := range a.rows {
		if slices.Contains(r.hook, m.Tool) {
			return r, "", r.name
		}
	}
	return unknownRow, "", m.Tool
}

// submitted returns the name of the tool that a message is about and its input, as the
// pipeline gets them.
func (a *Agent) submitted(m *Message) (r row, toolName string, input json.RawMessage, err error) {
	r, server, name := a.rowOf(m)
	input = m.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if r.line != "" {
		input = lined(input, r.line)
	}
	if r.wrap {
		wrapped := map[string]any{"tool": name, "input": input}
		if r.act == tool.ActMCP {
			wrapped["server"] = server
		}
		if input, err = json.Marshal(wrapped); err != nil {
			return r, "", nil, fmt.Errorf("wrapping the input: %w", err)
		}
	}
	return r, a.Name + "/" + r.name, input, nil
}

// lined is an input whose line for a shell is a list of words, as versions of Codex send it, with
// the line that stands for these words. Any other input is returned as it is.
func lined(input json.RawMessage, name string) json.RawMessage {
	if _, err := canonical.JSON(input); err != nil {
		return input // which is refused: reading it here could drop a second spelling
	}
	var args map[string]json.RawMessage
	var words []string
	if json.Unmarshal(input, &args) != nil || json.Unmarshal(args[name], &words) != nil || len(words) == 0 {
		return input
	}
	line, err := json.Marshal(text.ShellQuote(words))
	if err != nil {
		return input
	}
	args[name] = line
	out, err := json.Marshal(args)
	if err != nil {
		return input
	}
	return out
}

// descriptor is the definition of a row's tool.
func (a *Agent) descriptor(r row) tool.Descriptor {
	return tool.Descriptor{
		Name: a.Name + "/" + r.name, Title: title(a, r),
		Description: "A tool of " + a.Name + ", which runs it itself and asks about each call by its hook. What it does is described by the agent.",
		InputSchema: r.schema(), Capabilities: r.caps, Executor: tool.External,
		ReadOnly: len(r.caps) == 1 && r.caps[0] == tool.FilesystemRead && !r.sensitive, OpenWorld: r.open, AlwaysSensitive: r.sensitive,
	}
}

func title(a *Agent, r row) string {
	switch r.act {
	case tool.ActMCP:
		return "Any tool of an MCP server, called by " + a.Name
	case tool.ActUnknown:
		return "A tool of " + a.Name + " that the gateway does not know"
	}
	return r.name + " of " + a.Name
}

// schema declares what facts and policies read, and lets everything else pass: agents
// get new arguments with each version, and all of them are in what is approved.
func (r row) schema() json.RawMessage {
	properties := map[string]any{}
	text := func(names ...string) {
		for _, name := range names {
			if name != "" {
				properties[name] = map[string]any{"type": "string"}
			}
		}
	}
	var required []string
	if r.wrap {
		text("tool")
		properties["input"] = map[string]any{"type": "object"}
		required = []string{"input", "tool"}
		if r.act == tool.ActMCP {
			text("server")
			required = []string{"input", "server", "tool"}
		}
	}
	text(r.paths...)
	text(r.urls...)
	text(r.line)
	if r.line != "" {
		required = append(required, r.line)
	}
	schema := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties, "additionalProperties": true}
	if len(required) > 0 {
		schema["required"] = required
	}
	out, err := json.Marshal(schema)
	if err != nil {
		panic("hook: a schema that is made of maps cannot be written: " + err.Error())
	}
	return out
}

// every yields all rows of the agent, those for what has none included.
func (a *Agent) every() []row { return append(slices.Clone(a.rows), mcpRow, unknownRow) }
