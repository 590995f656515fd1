package tool

import "context"

// Facts are values that Cedar cannot compute itself. They are determined before evaluation, passed
// to policy as context, and journaled so that a replay is exact.
type Facts struct {
	// Workspace is the declared name of the workspace, "" for a call without one.
	Workspace string `json:"workspace,omitempty"`
	// Path is workspace-relative, after symlink resolution.
	Path string `json:"path,omitempty"`
	// PathFolded is Path in one form for all spellings that a file system which folds case treats
	// as the same file (text.FoldCase): "SRC/A.go" and "src/a.go" both become "src/a.go".
	PathFolded string `json:"path_folded,omitempty"`
	// HardLinks is the number of names of the file: 0 if it is not a regular file, does not exist
	// yet, or the platform does not report it.
	HardLinks int `json:"hard_links,omitempty"`
	// Paths are all files that the call changes, sorted. Path is then the only file, or the common
	// directory.
	Paths []string `json:"paths,omitempty"`
	// Protected is true when Path is on the protected list.
	Protected bool `json:"protected,omitempty"`
	// Host is canonical; Domain is its registrable domain.
	Host   string `json:"host,omitempty"`
	Domain string `json:"domain,omitempty"`
	Port   int    `json:"port,omitempty"`
	// Method is the HTTP method.
	Method string `json:"method,omitempty"`
	// Exec is set for calls that start a program.
	Exec *ExecFacts `json:"exec,omitempty"`
	// Shell is set for calls that pass a command line to a shell.
	Shell *ShellFacts `json:"shell,omitempty"`
	// Risk is 0 (none) to 100.
	Risk         int    `json:"risk"`
	SandboxTier  string `json:"sandbox_tier"`
	SandboxLevel string `json:"sandbox_level"`
	// SandboxRung is the isolation level of the machine: full, user_namespaces, landlock, seatbelt
	// or job_object (docs/sandbox.md).
	SandboxRung string `json:"sandbox_rung,omitempty"`
	// SandboxLayers are the layers that a probe proved, sorted.
	SandboxLayers []string `json:"sandbox_layers,omitempty"`
	// SandboxLimits is the mechanism of the limits: cgroup_v2, cgroup_v1 or rlimit.
	SandboxLimits string `json:"sandbox_limits,omitempty"`
	// LandlockABI is the version of Landlock that was achieved, 0 for none.
	LandlockABI int `json:"landlock_abi,omitempty"`
	// WorkspaceMode is copy_on_write, direct or read_only.
	WorkspaceMode string   `json:"workspace_mode,omitempty"`
	EgressMode    string   `json:"egress_mode,omitempty"`
	EgressHosts   []string `json:"egress_hosts,omitempty"`
	// Secrets are the names of the secrets that the call may use without access to them, and of the
	// secrets that its program would get, sorted.
	Secrets []string `json:"secrets,omitempty"`
	// External is set for calls that an agent runs itself.
	External *ExternalFacts `json:"external,omitempty"`
}

// The origins of a program, in ExecFacts.
const (
	// OriginSystem is the system's own directories, such as /usr/bin.
	OriginSystem = "system"
	// OriginToolchain is a directory of people's tools that agents cannot write to.
	OriginToolchain = "toolchain"
	OriginWorkspace = "workspace"
	// OriginOther is any other directory.
	OriginOther = "other"
)

// ExecFacts describe the program of a call.
type ExecFacts struct {
	// Basename is the name of the resolved executable: "python3.12", not "python".
	Basename      string `json:"basename"`
	Path          string `json:"path"`
	SHA256        string `json:"sha256"`
	IsInterpreter bool   `json:"is_interpreter"`
	// IsShell is true for an interpreter that is a shell.
	IsShell    bool `json:"is_shell,omitempty"`
	InlineCode bool `json:"inline_code"`
	// InWorkspace is true for a program that is a file of the workspace.
	InWorkspace bool `json:"in_workspace"`
	// Origin is one of the origins above.
	Origin string `json:"origin"`
	// Shebang is the interpreter that a script names, "" for a binary.
	Shebang string `json:"shebang"`
	// Line is the whole command line, quoted, with the program under the name by which it was
	// found. It is "" for a command line that is too long.
	Line string `json:"line,omitempty"`
	// Arg1 and Arg2 are the first arguments; each is "" if it is, or may be, an option.
	Arg1 string `json:"arg1,omitempty"`
	Arg2 string `json:"arg2,omitempty"`
	// Env are the names of the variables that the call sets and that are not on the allow list
	// (sandbox.Listed), sorted. It contains EnvUnknown if a command line sets other variables.
	Env []string `json:"env,omitempty"`
	// Starts are the commands that the program starts according to its arguments, sorted: without
	// directories, or as written if it is not a command name. It contains StartsUnknown if a
	// command is uncertain.
	Starts []string `json:"starts,omitempty"`
}

// Elements of ExecFacts.Env and Starts for unknown values.
const (
	EnvUnknown    = "?"
	StartsUnknown = "?"
)

// SessionFacts are the totals of a call's session so far; policy reads them as context.session
// (docs/sessions.md).
type SessionFacts struct {
	// CallsInRun is the number of the call, from 1: within its run if the gateway drives that run,
	// else among all other calls of its session.
	CallsInRun int `json:"calls_in_run"`
	// InFlight counts the calls of the session that have not ended.
	InFlight int `json:"in_flight"`
	// ToolsUsed and SecretsRead are sorted and without repeats.
	ToolsUsed   []string `json:"tools_used"`
	SecretsRead []string `json:"secrets_read"`
	// Tainted is true after the session has a permitted call of a tool that reads from the open
	// world, or a program that read from a host.
	Tainted bool `json:"tainted"`
	// BytesOut counts the bytes sent, and the bytes that other running calls may still send.
	BytesOut int64 `json:"bytes_out"`
}

// Preview is the information displayed for a call in addition to its arguments.
type Preview struct {
	// Summary is one plain sentence, generated by the gateway.
	Summary string `json:"summary"`
	// Lead is the short description of a call that is not described by a program's command line or
	// a file of a workspace: an address, or the command of another shell.
	Lead string `json:"lead,omitempty"`
	// Diff is a unified diff of the files that would change.
	Diff string `json:"diff,omitempty"`
	// Notes are warnings, such as operands that are not bound.
	Notes []string `json:"notes,omitempty"`
}

// Plan describes the effects of a call without performing them. Planning the same proposal twice
// gives the same binding unless the environment changed.
//
// Planning MUST NOT have an effect, except to read. A plan MUST bind everything that determines
// the effects of the call, such as the bytes of its program. It MUST NOT change after it was
// evaluated.
type Plan struct {
	Binding Binding
	Facts   Facts
	Preview Preview
	// Subject is the scope of a grant with matcher "subject", such as
	// "process.run:/usr/bin/git@default".
	Subject string
	// SubjectCovers describes the scope for people: "any git command, any arguments, in workspace
	// here". If it is empty, the subject is displayed.
	SubjectCovers string
	// ExactOnly is the reason why a grant for the call covers only that exact call, such as
	// "python3 runs whatever code it is given"; "" if wider grants are possible.
	ExactOnly string
	// Files are the files and directories that the facts were read from. They are only part of the
	// digest of the facts in a permit.
	Files []FileIdentity
	// Contents lists the files whose content, existence or location is part of the binding, the
	// preview or the facts, including files that do not exist. This information MUST NOT be
	// returned to callers that policy does not allow to read these files. Unlisted is true if the
	// list may be incomplete.
	Contents []FileAccess
	Unlisted bool
	// Named are the facts derived from the arguments alone, for explanations to people who may not
	// read the files; nil if Facts contains nothing else.
	Named *Facts
	// MaySend is the maximum number of bytes that the call can send out of this machine, 0 for
	// none. It is the egress budget of the settings even if no mechanism enforces it (egress
	// preflight and unrestricted).
	MaySend int64
	// UnboundArguments counts the arguments that look like paths but do not resolve to a file.
	// Files that the program finds there are not bound.
	UnboundArguments int
	// DeniedHosts are the hosts that the arguments or the files of the call name and that its program
	// may not reach, each with the place that names it. They are not part of a decision.
	DeniedHosts []string
	// Injections are secrets that the program receives in plain text. Each is decided separately,
	// before the call. They are also part of the binding.
	Injections []Injection
}

// RunElsewhere makes p the plan of a call that another gateway runs. No sandbox of this gateway
// contains it, and it uses the network of the other gateway.
func (p *Plan) RunElsewhere() {
	p.Binding.Elsewhere, p.Binding.SandboxProfile, p.Binding.Egress = true, "none: another gateway runs it", []string{"none"}
	p.Facts.BoundByNothing()
}

// BoundByNothing records that no sandbox of this gateway contains the call.
func (f *Facts) BoundByNothing() {
	f.SandboxTier, f.SandboxLevel, f.SandboxRung, f.SandboxLimits = "external", "none", "", ""
	f.SandboxLayers, f.LandlockABI, f.EgressMode = nil, 0, "none"
}

// Injection is a secret that the program or the guest of a call receives in plain text.
type Injection struct {
	// Secret is the reference without the scheme, such as "global/aws". Version is the version of
	// its value.
	Secret  string `json:"secret"`
	Version int    `json:"version"`
	// Env is the variable with the value, or with the path of the file if File is set. File is the
	// path inside the sandbox.
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"`
	// Server is the upstream server that receives the secret and keeps it until it stops. It is ""
	// for the program of the call, which keeps it until the call ends.
	Server string `json:"server,omitempty"`
	// Skill is the skill whose guest receives the secret on request, not in a variable or a file.
	// The worker of the guest is killed after the call. It is "" for a program.
	Skill string `json:"skill,omitempty"`
	// Within is the maximum duration of the injection.
	Within string `json:"within,omitempty"`
	// Note is the note of the secret's owner, for people.
	Note string `json:"note,omitempty"`
}

// FileIdentity identifies an inspected file and its state.
type FileIdentity struct {
	Device, Inode uint64
	// ChangedAt is the time of the last change of content, names or mode, in nanoseconds since
	// 1970 (st_ctim). It is 0 for a directory, whose entries are inspected individually.
	ChangedAt int64
}

// Prepared is a call that may start immediately. Plan was read from the objects that Run will
// use, which stay open until Close.
type Prepared struct {
	Plan Plan
	// Run runs the call. Failures are in the report. Run MUST NOT return while the work continues.
	Run func(context.Context, Call) Report
	// Close releases the open objects; nil if none are open.
	Close func()
}

// Release calls Close unless it is nil.
func (p Prepared) Release() {
	if p.Close != nil {
		p.Close()
	}
}
