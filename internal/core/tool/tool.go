// Package tool is the vocabulary of a tool call: the descriptor of a tool, the proposal to call it,
// the plan of its effects, and the report of its execution. It holds data and digests and does no
// I/O.
package tool

import (
	"encoding/json"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
)

// Capability is a power that a tool needs.
type Capability string

// The capabilities. All but FilesystemRead are sensitive.
const (
	ProcessExec     Capability = "process_exec"
	Network         Capability = "network"
	SecretsRead     Capability = "secrets_read"
	FilesystemWrite Capability = "filesystem_write"
	FilesystemRead  Capability = "filesystem_read"
	Browser         Capability = "browser"
	ChannelSend     Capability = "channel_send"
	NodeExec        Capability = "node_exec"
)

// Capabilities lists all capabilities.
var Capabilities = []Capability{
	ProcessExec, Network, SecretsRead, FilesystemWrite, FilesystemRead, Browser, ChannelSend, NodeExec,
}

// Executor identifies the component that runs a call.
type Executor string

// The executors.
const (
	Builtin         Executor = "builtin"
	TierAWasmtime   Executor = "sandbox_tier_a_wasmtime"
	TierB           Executor = "sandbox_tier_b"
	TierCBubblewrap Executor = "sandbox_tier_c_linux_bubblewrap"
	TierCSeatbelt   Executor = "sandbox_tier_c_macos_sandbox_exec"
	MCPUpstream     Executor = "mcp_upstream"
	Node            Executor = "node"
	External        Executor = "external"
)

// Descriptor defines a tool. Its digest pins it.
type Descriptor struct {
	// Name is unique: "fs.read", "<server>/<tool>" for an MCP tool, or
	// "<skill>/<tool>" for one of a skill.
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// InputSchema is a JSON Schema (2020-12) of type object.
	InputSchema  json.RawMessage `json:"input_schema"`
	Capabilities []Capability    `json:"capabilities"`
	Executor     Executor        `json:"executor"`
	ReadOnly     bool            `json:"read_only"`
	Destructive  bool            `json:"destructive"`
	OpenWorld    bool            `json:"open_world"`
	// AlwaysSensitive makes the tool sensitive regardless of its capabilities.
	AlwaysSensitive bool `json:"always_sensitive"`
	// SecretPaths are JSON Pointers (RFC 6901) of inputs that are redacted before they are
	// journaled. A pointer that ends in "/*" covers all members, except members whose pointer is
	// listed with a "!" before it.
	SecretPaths []string `json:"secret_paths,omitempty"`
	// Skill is the id of the skill whose guest the tool is, "" for all others.
	Skill string `json:"skill,omitempty"`
}

// Sensitive reports whether calls require an approval unless a policy waives it.
func (d Descriptor) Sensitive() bool {
	return d.AlwaysSensitive || slices.ContainsFunc(d.Capabilities, func(c Capability) bool { return c != FilesystemRead })
}

// WorkspaceArgument is the argument of tools that work in a declared workspace.
const WorkspaceArgument = "workspace"

// TakesWorkspace reports whether calls name a declared workspace. An argument with this name in a
// foreign tool has another meaning.
func (d Descriptor) TakesWorkspace() bool {
	if slices.Contains([]Executor{MCPUpstream, Node, External}, d.Executor) {
		return false
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.InputSchema, &schema) != nil {
		return false
	}
	_, takes := schema.Properties[WorkspaceArgument]
	return takes
}

// Digest returns the digest that pins the definition: "sha256:<hex>" over its canonical JSON.
func (d Descriptor) Digest() (string, error) { return canonical.DigestOf(d) }

// Proposal is a request to call one tool with one input, before any decision.
type Proposal struct {
	// ID is a ULID.
	ID     string
	Caller access.Caller
	// Session, Run and Channel scope budgets and approvals.
	Session string
	Run     string
	Channel string
	Tool    Descriptor
	// Input is the canonical JSON (RFC 8785) of the arguments, checked
	// against the tool's schema.
	Input json.RawMessage
}

// Executable is the program a call starts, as resolved before approval.
type Executable struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Operand is a file that the call names or that a known runner reads. A change of its bytes
// changes the call digest.
type Operand struct {
	// Path is relative to the workspace.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Binding is the data that an approval binds to: everything that identifies this exact call.
// Its digest is the call digest (docs/approvals.md).
type Binding struct {
	Principal            string          `json:"principal"`
	OnBehalfOf           string          `json:"on_behalf_of"`
	Tool                 string          `json:"tool"`
	ToolDefinitionDigest string          `json:"tool_definition_digest"`
	Arguments            json.RawMessage `json:"arguments"`
	// Cwd is "<workspace>:<relative path>", or "" without one.
	Cwd  string   `json:"cwd"`
	Argv []string `json:"argv"`
	// Environment has name=value, sorted; secrets are name@version.
	Environment []string   `json:"environment"`
	Executable  Executable `json:"executable"`
	Operands    []Operand  `json:"operands"`
	// SandboxProfile names the tier, the workspace mode and the limits.
	SandboxProfile string `json:"sandbox_profile"`
	// Egress is the mode and the sorted host:port set; "strict" means offline.
	Egress []string `json:"egress"`
	// Parsed is the digest of the gateway's parse of a shell line, "sha256:<hex>"; "" for calls
	// without one.
	Parsed string `json:"parsed,omitempty"`
	// Elsewhere is true for a call that this gateway decides and another gateway runs.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Digest returns the call digest, "sha256:<hex>" over RFC 8785 JSON.
func (b Binding) Digest() (string, error) { return canonical.DigestOf(b.normal()) }

// normal replaces nil lists by empty ones, so that the digest is the same for both.
func (b Binding) normal() Binding {
	if len(b.Arguments) == 0 {
		b.Arguments = json.RawMessage("{}")
	}
	b.Argv = canonical.List(b.Argv)
	b.Environment = canonical.List(b.Environment)
	b.Operands = canonical.List(b.Operands)
	b.Egress = canonical.List(b.Egress)
	return b
}

// Difference is one bound field in which two calls differ.
type Difference struct {
	Field string `json:"field"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// Diff compares two bindings field by field, in the order of the struct.
func (b Binding) Diff(now Binding) ([]Difference, error) {
	was, err := fields(b.normal())
	if err != nil {
		return nil, err
	}
	is, err := fields(now.normal())
	if err != nil {
		return nil, err
	}
	var diffs []Difference
	for _, name := range BindingFields {
		if was[name] != is[name] {
			diffs = append(diffs, Difference{Field: name, Was: was[name], Is: is[name]})
		}
	}
	return diffs, nil
}

// BindingFields lists the JSON names of all fields of a Binding, in the order of the struct.
var BindingFields = []string{
	"principal", "on_behalf_of", "tool", "tool_definition_digest", "arguments", "cwd", "argv",
	"environment", "executable", "operands", "sandbox_profile", "egress", "parsed", "elsewhere",
}

func fields(b Binding) (map[string]string, error) {
	text, err := canonical.Marshal(b)
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[name] = string(value)
	}
	return out, nil
}
