package policy

import (
	"slices"

	"palyra/internal/core/tool"
)

// factKind defines how a fact is treated between a decision and the run of its call.
type factKind uint8

const (
	// bound facts must be the same at the run as at the decision: the permit holds their digest.
	// An example is context.path: a link that is redirected after the decision stops the call.
	bound factKind = iota + 1
	// fresh facts keep changing while a call waits: they are read again, and the call is judged
	// again, immediately before its decision. context.session is one.
	fresh
	// environment facts describe the machine. If one changed at dispatch, the call is judged
	// again, and refused if the verdict differs.
	environment
)

// origin is the source of a fact.
type origin uint8

const (
	ofCall   origin = iota + 1 // the proposal
	ofCaller                   // the proposer and the connection
	ofPlan                     // the planning of the call by the gateway
	ofPast                     // the past of the session
	ofCommit                   // the changes of the call to its copy of a workspace
	ofVotes                    // the votes of approvers
	ofClock
)

// Way is the way in which a person can change a fact.
type Way uint8

const (
	// ByNobody is for facts that the gateway determines; advice never proposes to change them.
	ByNobody Way = iota + 1
	// ByArgument is for arguments of a call, which the caller can change.
	ByArgument
	// ByReason is for the requester's reason, which is not part of the call.
	ByReason
	// ByVote is for votes of approvers.
	ByVote
	// ByWaiting is for facts that change with time.
	ByWaiting
)

// contexts is the set of contexts that have a fact.
type contexts uint8

const (
	inCall contexts = 1 << iota
	inCommit
	inInjection
	inAll = inCall | inCommit | inInjection
)

// Fact is a row of the table of facts that policy can read of a call.
type Fact struct {
	// Name is the name in the context: "risk", or "exec.basename" for a member of a record.
	Name string
	// Type is written as in a Cedar schema. A record has its own type name and its own rows; an
	// optional fact ends in "?".
	Type string
	// Values are all texts that a text fact can equal, or a set can contain; nil for any.
	Values []string
	kind   factKind
	in     contexts
	origin origin
	Change Way
	// at returns a pointer to the fact in a request, or nil if the request lacks it. The field
	// is nil if no request has the fact. For a record it returns a record.
	at func(*Request) any
	// About is the description in docs/reference/facts.md.
	About string
}

// Values of text facts.
var (
	egressModes    = []string{"strict", "preflight", "none", ""}
	sandboxTiers   = []string{"builtin", "a", "b", "c", "external"}
	sandboxLevels  = []string{"strict", "preflight", "none"}
	sandboxRungs   = []string{"full", "user_namespaces", "landlock", "seatbelt", "job_object", ""}
	sandboxLimits  = []string{"cgroup_v2", "cgroup_v1", "rlimit", "job_object", ""}
	workspaceModes = []string{"copy_on_write", "direct", "read_only", ""}
	execOrigins    = []string{tool.OriginSystem, tool.OriginToolchain, tool.OriginWorkspace, tool.OriginOther}
	shellDialects  = []string{"posix", "bash"}
	shellOrigins   = append([]string{tool.OriginShell, tool.OriginLocal, tool.OriginUnknown}, execOrigins...)
	changeClasses  = []string{"git", "agent", "runner", "declared", "symlink", "hard_link", "special", "mode", "name", "executable"}
)

// facts is the table. It generates the schema, the context of a request, the offers of
// explanations, the findings about literals, described facts and docs/reference/facts.md.
// Its rows have no field names, so that a row without a kind does not compile.
var facts = [...]Fact{
	{"args", "", nil, bound, inCall, ofCall, ByArgument, nil, "the call's arguments, typed by the tool's schema ([arguments](../policy.md))"},
	{"args_rest", "String", nil, bound, inCall, ofCall, ByNobody, nil, "arguments that the schema does not declare: JSON from pointer to value, `\"\"` if there are none"},
	{"approval", "ApprovalFacts", nil, fresh, inAll, ofVotes, ByVote, nil, "the votes about the call"},
	{"approval.granted", "Bool", nil, fresh, inAll, ofVotes, ByVote, nil, "at least one vote counts"},
	{"approval.standing", "Bool", nil, fresh, inAll, ofVotes, ByVote, nil, "the votes come from a grant, not from an approval of this call"},
	{"approval.approvers", "Long", nil, fresh, inAll, ofVotes, ByVote, nil, "the number of distinct users, not of devices or sessions; all but the first must be independent of the requester and of each other"},
	{"approval.by_role", "ByRole", nil, fresh, inAll, ofVotes, ByVote, nil, "a record of the number of distinct users per role who are independent of the requester and of each other: `by_role.security`"},
	{"approval.votes", "Set<VoteFact>", nil, fresh, inAll, ofVotes, ByVote, nil, "a set of `{ role, surface, paired, present }`: the proofs of each voter"},
	{"approval.age_seconds", "Long", nil, fresh, inAll, ofVotes, ByVote, nil, "the age of the oldest counted vote, rounded up; very large without votes"},
	{"device_id", "String", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.DeviceID }, "the caller's device; `\"\"` for none"},
	{"session_id", "String", nil, bound, inAll, ofCall, ByNobody, func(r *Request) any { return &r.Session }, "a name that ends with the client's name of its conversation; use `session` for earlier calls"},
	{"run_id", "String", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Run }, "the client's own id, unless palyrad drives the run; `\"\"` for none"},
	{"tool_name", "String", nil, bound, inAll, ofCall, ByNobody, func(r *Request) any { return &r.Tool }, "the name of the tool"},
	{"skill_id", "String", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.SkillID }, "the id of the skill of the tool, `\"\"` for none"},
	{"surface", "String", texts(surfaces, callSurfaces), bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Surface }, "the interface that the caller uses"},
	{"paired", "Bool", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Paired }, "the caller's device is paired"},
	{"present", "Bool", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Present }, "the caller proved presence"},
	{"requester_reason", "String", nil, bound, inAll, ofCaller, ByReason, func(r *Request) any { return &r.RequesterReason }, "the requester's reason for the call, in their words and unverified; `\"\"` for none"},
	{"capabilities", "Set<String>", texts(tool.Capabilities), bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Capabilities }, "the capabilities that the call asks for"},
	{"now", "datetime", nil, fresh, inAll, ofClock, ByWaiting, func(r *Request) any { return &r.Time }, "the time of the evaluation, at most a second before the decision"},
	{"channel", "Channel?", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.Channel }, "the messaging channel of the call"},
	{"skill", "Skill?", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.SkillID }, "the skill of the tool; absent for any other tool"},
	{"workspace", "Workspace?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Workspace }, "the workspace of the call"},
	{"path", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Path }, "the path relative to the workspace, symbolic links resolved"},
	{"host", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Host }, "the canonical host"},
	{"domain", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Domain }, "the registrable domain of the host"},
	{"method", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Method }, "the HTTP method"},
	{"port", "Long?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Port }, "the port of the host"},
	{"protected", "Bool", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Protected }, "the path is on the protected list"},
	{"risk", "Long", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Risk }, "the risk score, 0 to 100"},
	{"sandbox", "SandboxFacts", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return (*sandboxFacts)(&r.Facts) }, "the isolation that the machine offers to the program"},
	{"sandbox.tier", "String", sandboxTiers, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxTier }, "the mechanism"},
	{"sandbox.level", "String", sandboxLevels, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLevel }, "the enforcement, in one word"},
	{"sandbox.rung", "String", sandboxRungs, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxRung }, "the level of isolation that the machine offers; `\"\"` for calls that start no program"},
	{"sandbox.layers", "Set<String>", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLayers }, "layers proved by a probe, such as `landlock`, `seccomp`, `network_namespace`"},
	{"sandbox.limits", "String", sandboxLimits, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLimits }, "the mechanism of resource limits"},
	{"sandbox.landlock_abi", "Long", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.LandlockABI }, "the active version of Landlock, 0 for none"},
	{"egress", "EgressFacts", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return (*egressFacts)(&r.Facts) }, "the destinations that the call may reach"},
	{"egress.mode", "String", egressModes, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.EgressMode }, "the enforcement; `none` is the network of the host, also for calls that others run; `\"\"` for calls that start no program and fetch nothing"},
	{"egress.hosts", "Set<String>", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.EgressHosts }, "canonical rules with their ports, such as `github.com:443` and `*.example.org:443`; empty for a program that runs offline"},
	{"egress.secrets", "Set<String>", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Secrets }, "names of the secrets that the call may use without seeing them, and of secrets that its program would get"},
	{"exec", "ExecFacts?", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return recordIf(r.Facts.Exec != nil, (*execFacts)(r.Facts.Exec)) }, "the resolved program"},
	{"exec.basename", "String", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Basename }, "the base name after links: `python3.12`, not `python`"},
	{"exec.path", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Path }, "the absolute path, symbolic links resolved"},
	{"exec.sha256", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.SHA256 }, "the digest of its content"},
	{"exec.is_interpreter", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.IsInterpreter }, "it runs code from its input: an interpreter, such as `python3.12`, or a shell"},
	{"exec.is_shell", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.IsShell }, "it is a shell, such as `bash`"},
	{"exec.inline_code", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.InlineCode }, "the arguments or standard input contain code"},
	{"exec.in_workspace", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.InWorkspace }, "it is a file of the workspace"},
	{"exec.origin", "String", execOrigins, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Origin }, "the origin of the program; a name alone does not prove it"},
	{"exec.shebang", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Shebang }, "the interpreter that a script names, `\"\"` for a binary"},
	{"exec.line", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Line }, "the whole command line, quoted as in a shell: `git commit -m 'two words'`; absent above 16 KiB"},
	{"exec.arg1", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Arg1 }, "the first argument: `push` in `git push origin`; absent if it is an option, or may be the value of one"},
	{"exec.arg2", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Arg2 }, "the argument after `arg1`, if it is not an option"},
	{"exec.env", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Env }, "names of variables of the call that are not on the list of harmless variables; `?` if a shell line may set others"},
	{"exec.starts", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Starts }, "commands in the arguments that the program starts: `pytest` in `uv run pytest`, named as in `shell.commands`; `?` if one is uncertain"},
	{"shell", "ShellFacts?", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return recordIf(r.Facts.Shell != nil, always{}) }, "the gateway's analysis of a shell line"},
	{"shell.dialect", "String", shellDialects, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Shell.Dialect }, "the language of the line"},
	{"shell.claimed", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Shell.Claimed }, "another program runs the line, and only reports it"},
	{"shell.parsed", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Parsed }, "the line could be parsed"},
	{"shell.known", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Known }, "the commands are known before the line runs: it is `parsed`, not `dynamic`, has no `special` constructs, and is not `claimed`"},
	{"shell.dynamic", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Dynamic }, "the line expands a word: a parameter, a substitution, a pattern, a brace, a tilde"},
	{"shell.special", "Set<String>", tool.ShellSpecials, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Special }, "constructs with effects that the commands do not show"},
	{"shell.commands", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Commands }, "every command without its directory, `rm`, and as written if different, `./rm`; `?` unless the line is `known`, `>` if a redirect writes"},
	{"shell.subcommands", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Subcommands }, "every command with its first argument, `git push`; `git ?` if that is an option or uncertain; `?` and `>` as in `shell.commands`"},
	{"shell.lines", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Lines }, "every command with all arguments, quoted like `exec.line`; `?` and `>` as in `shell.commands`, and only `?` above 16 KiB"},
	{"shell.origins", "Set<String>", shellOrigins, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Origins }, "the origins of the commands: `shell` for builtins, `local` for programs that were added below `/usr/local`; `unknown` for commands that are not found, and unless the line is `known`"},
	{"shell.reads", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Reads }, "files that redirects read, `?` for an unknown one"},
	{"shell.writes", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Writes }, "files that redirects write, as written, except `/dev/null`"},
	{"session", "SessionFacts", nil, fresh, inAll, ofPast, ByNobody, unremembered, "the caller's recent calls in the session that the gateway defines ([sessions](../sessions.md)), at the time of the decision; clients cannot reset it"},
	{"session.calls_in_run", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.CallsInRun }, "calls of the run if palyrad drives it, otherwise of the session"},
	{"session.in_flight", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.InFlight }, "calls that have not ended"},
	{"session.tools_used", "Set<String>", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.ToolsUsed }, "tools of the allowed calls"},
	{"session.secrets_read", "Set<String>", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.SecretsRead }, "secrets of the allowed calls"},
	{"session.tainted", "Bool", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.Tainted }, "data from the open world may have entered: by a tool that reads there, or by a program from a host"},
	{"session.bytes_out", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.BytesOut }, "bytes sent, and reserved by running calls"},
	{"workspace_mode", "String", workspaceModes, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.WorkspaceMode }, "the way a program sees the workspace; `\"\"` for calls that start none"},
	{"changes", "ChangeFacts", nil, bound, inCommit, ofCommit, ByNobody, unremembered, "the changes of the call in its copy of the workspace"},
	{"changes.root", "String", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Root }, "the digest of the change set"},
	{"changes.added", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Added }, "the number of added files"},
	{"changes.modified", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Modified }, "the number of modified files"},
	{"changes.deleted", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Deleted }, "the number of deleted files"},
	{"changes.bytes", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Bytes }, "the bytes written"},
	{"changes.protected", "Set<String>", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Protected }, "paths of protected changes"},
	{"changes.classes", "Set<String>", changeClasses, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Classes }, "reasons for their protection ([classes](../policy.md))"},
	{"changes.top", "Set<String>", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Top }, "top-level directories with changes, `.` for files and links at the top itself; `Docs` is listed as `Docs` and `docs`, so that no spelling escapes a rule"},
	{"exit_code", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.ExitCode }, "the exit code of the program; -1 if it was stopped"},
	{"path_folded", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return foldedPath(&r.Facts) }, "`path` in the canonical spelling of all names of the same file on file systems that fold case or normalize names: Unicode full case folding, NFC, without invisible characters; present if `path` is. `SECRETS/.ENV` is `secrets/.env`"},
	{"hard_links", "Long", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.HardLinks }, "the number of names of the file: 1 for an ordinary one; 0 for a directory, a file that does not exist yet, a call about several files, and on Windows"},
	{"external", "ExternalFacts?", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return recordIf(r.Facts.External != nil, always{}) }, "a call that an agent runs itself ([hooks](../hooks.md)), as reported by the agent; absent for any other"},
	{"external.agent", "String", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.External.Agent }, "the agent: `claude-code`, `codex`, `generic`"},
	{"external.act", "String", texts(tool.Acts), bound, inCall, ofPlan, ByNobody, func(r *Request) any { return (*string)(&r.Facts.External.Act) }, "the act of the tool, in one word for all agents"},
	{"external.permission_mode", "String", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.External.PermissionMode }, "the agent's own mode, such as `bypassPermissions`; `\"\"` if it reports none"},
	{"external.server", "String", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Server }, "the MCP server of the tool, by its name in the agent's configuration, which any project can choose; `\"\"` for the agent's own tools"},
	{"external.outside", "Set<String>", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Outside }, "absolute paths in the call that are in no declared workspace"},
	{"external.guarded", "Set<String>", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Guarded }, "paths that the call may write and that configure agents or the gateway"},
	{"injection", "InjectionFacts", nil, bound, inInjection, ofCall, ByNobody, unremembered, "the destination of the secret's value"},
	{"injection.env", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Env }, "the variable with the value, or with the path of its file; `\"\"` for none"},
	{"injection.file", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().File }, "the path of the file in the sandbox, `\"\"` for none"},
	{"injection.server", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Server }, "the upstream server that gets the value and has it until it stops ([upstream servers](../upstreams.md)); `\"\"` for the program of a call"},
	{"injection.skill", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Skill }, "the skill whose guest gets the value, in neither variable nor file, and whose worker is killed after the call ([WebAssembly](../wasm.md)); `\"\"` for a program"},
	{"injection.version", "Long", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Version }, "the version of the secret"},
}

// injection returns a copy of the injection that the request is about, or a zero one.
func (r *Request) injection() *tool.Injection {
	var out tool.Injection
	if r.Injection != nil {
		out = *r.Injection
	}
	return &out
}

// Brought reports whether the fact comes with a call, so that planning does not determine it.
func (f *Fact) Brought() bool { return f.origin == ofCall || f.origin == ofCaller }

// recordIf returns a record that a request has, or nil.
func recordIf(present bool, r record) any {
	if !present {
		return nil
	}
	return r
}

// texts returns the elements of some lists as texts.
func texts[T ~string](lists ...[]T) []string {
	var out []string
	for _, s := range slices.Concat(lists...) {
		out = append(out, string(s))
	}
	return out
}
