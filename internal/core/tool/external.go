package tool

// Act is the kind of action of an agent's tool, common to all agents.
type Act string

// The acts.
const (
	ActRead    Act = "read"    // reads files
	ActWrite   Act = "write"   // changes files
	ActShell   Act = "shell"   // runs a line in a shell
	ActInput   Act = "input"   // types into a running program
	ActFetch   Act = "fetch"   // reads from, or sends to, other hosts
	ActAgent   Act = "agent"   // starts, steers or schedules an agent whose own calls are decided separately
	ActSkill   Act = "skill"   // loads text that may run commands while it is loaded
	ActMCP     Act = "mcp"     // calls a tool of an MCP server
	ActTalk    Act = "talk"    // plans, asks its user, keeps a list
	ActUnknown Act = "unknown" // a tool unknown to the gateway
)

// Acts lists all acts.
var Acts = []Act{ActRead, ActWrite, ActShell, ActInput, ActFetch, ActAgent, ActSkill, ActMCP, ActTalk, ActUnknown}

// ExternalFacts describe a call that an agent runs itself. They are the agent's claim: it is
// trusted only to run the call that it requested. Where the gateway resolved a path named by the
// agent, the result is the gateway's finding at that moment; the agent opens the file later.
type ExternalFacts struct {
	// Agent is the requesting program: claude-code, codex or generic.
	Agent string `json:"agent"`
	Act   Act    `json:"act"`
	// PermissionMode is the agent's own mode as reported, "" for none: bypassPermissions,
	// acceptEdits, plan.
	PermissionMode string `json:"permission_mode,omitempty"`
	// Server is the MCP server whose tool the agent calls, as named in the agent's configuration;
	// "" for the agent's own tools.
	Server string `json:"server,omitempty"`
	// Outside are the absolute paths that the call names and that are in no declared workspace,
	// with links resolved, sorted. It contains a path that cannot be resolved as written.
	Outside []string `json:"outside,omitempty"`
	// Guarded are the paths that the call may write to and that define programs run by agents or
	// the gateway, sorted.
	Guarded []string `json:"guarded,omitempty"`
}

// ClaimState is the outcome of a call that an agent runs itself.
type ClaimState string

// The states.
const (
	Reported   ClaimState = "reported"   // the agent reported the outcome
	Unreported ClaimState = "unreported" // the agent never reported the outcome
	RanOther   ClaimState = "ran_other"  // it reported that it ran something other than the decided call
)

// Claim is an agent's report of a call that it ran itself. The gateway decided the call, but
// did not execute or measure it.
type Claim struct {
	Agent string     `json:"agent"`
	State ClaimState `json:"state"`
	// InputSHA256 is the digest of the reported input, in canonical JSON.
	InputSHA256 string `json:"input_sha256,omitempty"`
	// ResponseSHA256 and ResponseBytes describe the tool's answer as received.
	ResponseSHA256 string `json:"response_sha256,omitempty"`
	ResponseBytes  int64  `json:"response_bytes,omitempty"`
}
