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

// row describes one tool of an agent.
type row struct {
	// hook are the names that the agent's hook uses; the first is the name in the version in Seen.
	hook []string
	// name is the part after "<agent>/".
	name string
	act  tool.Act
	caps []tool.Capability
	// paths, urls and line are the members of the input that name files, addresses, and a shell
	// command or the input of a program.
	paths, urls []string
	line        string
	// open is true if the tool reads from the open world.
	open bool
	// sensitive requires approval regardless of the capabilities.
	sensitive bool
	// own is true if the agent also asks its own user: the answer then only states that the gateway
	// does not object.
	own bool
	// wrap is true if the input is {"tool", "input"} or {"server", "tool", "input"}, for a tool
	// that has no row of its own.
	wrap bool
	// lasts is how long the agent may take until it reports, 0 means usually.
	lasts time.Duration
}

// Timeouts for the report of an agent.
const (
	usually = 15 * time.Minute
	// Subagents work for hours.
	longest = 12 * time.Hour
)

// Rows that several agents share.
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
	// Name is the name in the route, in policies and in commands.
	Name string
	// Seen is the agent version that the table was made from; "" if the protocol is the gateway's
	// own.
	Seen string
	rows []row
	read func(body []byte) (*Message, error)
	// answer returns the bytes that the hook prints; none for no output.
	answer func(m *Message, a Answer) []byte
	// edits is true for an agent whose hooks can replace the input of a call.
	edits bool
	// reasonBy describes how its hook passes a requester's reason, "" if it cannot.
	reasonBy string
}

// noEdit returns why approvers cannot edit a call of a row, "" if they can.
func (a *Agent) noEdit(r row) string {
	switch {
	case !a.edits:
		return "the hooks of " + a.Name + " cannot replace the input of a call"
	case r.wrap, r.own:
		return "the hook cannot replace the input of this tool"
	default:
		return ""
	}
}

// Agents are all supported agents.
var Agents = []*Agent{&claudeCode, &codex, &generic}

// find returns the agent with a name, nil for none.
func find(name string) *Agent {
	for _, a := range Agents {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Knows reports whether a tool, by the name that the agent's hook uses, has a row.
func (a *Agent) Knows(hookName string) bool {
	return slices.ContainsFunc(a.rows, func(r row) bool { return slices.Contains(r.hook, hookName) })
}

// mcpPrefix is the prefix of the names of MCP tools in hooks.
const mcpPrefix = "mcp__"

// rowOf returns the row of a tool and, for an MCP tool, its server and its name there. An unknown
// tool has the row for unknown tools.
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

// submitted returns the tool name and the input of a message, as submitted to the pipeline.
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

// lined converts an input whose shell command is a list of words, as versions of Codex send it,
// to an input with the equivalent line. Any other input is returned unchanged.
func lined(input json.RawMessage, name string) json.RawMessage {
	if _, err := canonical.JSON(input); err != nil {
		return input // it is refused later: parsing it here could drop a duplicate member
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

// descriptor returns the definition of a row's tool.
func (a *Agent) descriptor(r row) tool.Descriptor {
	return tool.Descriptor{
		Name: a.Name + "/" + r.name, Title: title(a, r),
		Description: "A tool of " + a.Name + ", which runs it itself and requests each call through its hook. The agent documents the tool.",
		InputSchema: r.schema(), Capabilities: r.caps, Executor: tool.External,
		ReadOnly: len(r.caps) == 1 && r.caps[0] == tool.FilesystemRead && !r.sensitive, OpenWorld: r.open, AlwaysSensitive: r.sensitive,
	}
}

func title(a *Agent, r row) string {
	switch r.act {
	case tool.ActMCP:
		return "Any tool of an MCP server, called by " + a.Name
	case tool.ActUnknown:
		return "A tool of " + a.Name + " that is not in the gateway's table"
	}
	return r.name + " of " + a.Name
}

// schema declares the members that facts and policies read, and accepts all others: agents add
// arguments with each version, and approvals cover all of them.
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

// every returns all rows of the agent, including those for unknown tools.
func (a *Agent) every() []row { return append(slices.Clone(a.rows), mcpRow, unknownRow) }
