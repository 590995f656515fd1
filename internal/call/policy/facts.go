package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// factKind says what a fact of the context is to the time between a decision and
// the run of its call.
type factKind uint8

const (
	// bound facts are the same when the call runs as when policy read them: the
	// permit holds their digest. context.path is one: a link that is turned
	// after the decision stops the call.
	bound factKind = iota + 1
	// fresh facts go on changing while a call waits: they are taken again, and
	// the call is judged again, right before its decision. context.session is
	// one.
	fresh
	// environment facts say what the machine gives. When one changed at
	// dispatch, the call is judged again, and refused when the verdict is
	// another.
	environment
)

func (k factKind) String() string { return [...]string{"", "bound", "fresh", "environment"}[k] }

// origin is where a fact comes from.
type origin uint8

const (
	ofCall   origin = iota + 1 // what was proposed
	ofCaller                   // who proposed it, and how they came in
	ofPlan                     // what the gateway finds when it plans the call
	ofPast                     // what the session did before
	ofCommit                   // what the call changed in its copy of a workspace
	ofVotes                    // what people said
	ofClock
)

func (o origin) String() string {
	return [...]string{"", "the call", "the caller", "planning", "the session", "the changes", "votes", "the clock"}[o]
}

// Way is how a person can change a fact.
type Way uint8

const (
	// ByNobody is of what the gateway finds out: no advice can be to change it.
	ByNobody Way = iota + 1
	// ByArgument is of what a call chooses: the caller can choose another.
	ByArgument
	// ByReason is of what the requester says of a call, which is no part of it.
	ByReason
	// ByVote is of what people say.
	ByVote
	// ByWaiting is of what time brings.
	ByWaiting
)

func (w Way) String() string {
	return [...]string{"", "nobody", "the caller, by another argument", "the requester, by another reason", "who approves", "who waits"}[w]
}

// contexts are those in which a fact is.
type contexts uint8

const (
	inCall contexts = 1 << iota
	inCommit
	inInjection
	inAll = inCall | inCommit | inInjection
)

// Fact is a row of the table of what policy can read of a call.
type Fact struct {
	// Name is that in the context: "risk", and "exec.basename" for what a record
	// has.
	Name string
	// Type is as a Cedar schema writes it. A record has the name of its own type,
	// and rows of its own; one that is not there for all calls ends in "?".
	Type string
	// Values are all that a text can be, or that a set of texts can hold; nil
	// when it can be any.
	Values []string
	kind   factKind
	in     contexts
	origin origin
	Change Way
	// at points to where the fact stands in a request; nil for what stands in
	// none, or is not there. Of a record it is a record.
	at func(*Request) any
	// About says in the words of docs/policy.md what it is.
	About string
}

// Values that text facts can have.
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

// facts is the table. The schema, the context of a request, what explanations
// offer, the findings about literals, described facts and the tables of
// docs/policy.md are made of it. Its rows have no field names, so that one
// without a kind does not compile.
var facts = [...]Fact{
	{"args", "", nil, bound, inCall, ofCall, ByArgument, nil, "the call's arguments, typed from the tool's schema (below)"},
	{"args_rest", "String", nil, bound, inCall, ofCall, ByNobody, nil, "what the schema does not declare: JSON from pointer to value, `\"\"` when there is none"},
	{"approval", "ApprovalFacts", nil, fresh, inAll, ofVotes, ByVote, nil, "what people said of the call"},
	{"approval.granted", "Bool", nil, fresh, inAll, ofVotes, ByVote, nil, "at least one vote counts"},
	{"approval.standing", "Bool", nil, fresh, inAll, ofVotes, ByVote, nil, "the votes come from a grant, not from an ask about this call"},
	{"approval.approvers", "Long", nil, fresh, inAll, ofVotes, ByVote, nil, "distinct users, never devices or sessions; from the second on, only those who are independent of the requester and of each other"},
	{"approval.by_role", "ByRole", nil, fresh, inAll, ofVotes, ByVote, nil, "a record of distinct users per role who are independent of the requester and of each other: `by_role.security`"},
	{"approval.votes", "Set<VoteFact>", nil, fresh, inAll, ofVotes, ByVote, nil, "a set of `{ role, surface, paired, present }`: what was proved by whom"},
	{"approval.age_seconds", "Long", nil, fresh, inAll, ofVotes, ByVote, nil, "of the oldest counted vote, rounded up; very large when there is none"},
	{"device_id", "String", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.DeviceID }, "`\"\"` when there is none"},
	{"session_id", "String", nil, bound, inAll, ofCall, ByNobody, func(r *Request) any { return &r.Session }, "ends with the name that the client gives its conversation; it does not say what was done before, which `session` does"},
	{"run_id", "String", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Run }, "the client's own unless palyrad drives the run; `\"\"` when there is none"},
	{"tool_name", "String", nil, bound, inAll, ofCall, ByNobody, func(r *Request) any { return &r.Tool }, "the tool that is called"},
	{"skill_id", "String", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.SkillID }, "the id of the skill whose tool is called, `\"\"` for none"},
	{"surface", "String", surfaceNames(), bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Surface }, "how the caller came in"},
	{"paired", "Bool", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Paired }, "the caller's device is paired"},
	{"present", "Bool", nil, bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Caller.Present }, "the caller proved to be present"},
	{"requester_reason", "String", nil, bound, inAll, ofCaller, ByReason, func(r *Request) any { return &r.RequesterReason }, "why the requester wants the call, in their own words ([below](#a-reason-of-the-requester)); `\"\"` when they said nothing. Nobody checked it"},
	{"capabilities", "Set<String>", capabilityNames(), bound, inAll, ofCaller, ByNobody, func(r *Request) any { return &r.Capabilities }, "those the call asks for"},
	{"now", "datetime", nil, fresh, inAll, ofClock, ByWaiting, func(r *Request) any { return &r.Time }, "when the call was judged, at most a second before its decision"},
	{"channel", "Channel?", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.Channel }, "the messaging channel that the call comes from"},
	{"skill", "Skill?", nil, bound, inCall, ofCall, ByNobody, func(r *Request) any { return &r.SkillID }, "the skill whose tool is called; not there for any other tool"},
	{"workspace", "Workspace?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Workspace }, "where the call works"},
	{"path", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Path }, "relative to the workspace, symbolic links resolved"},
	{"host", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Host }, "canonical host"},
	{"domain", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Domain }, "the registrable domain of the host"},
	{"method", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Method }, "of an HTTP request"},
	{"port", "Long?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Port }, "of the host"},
	{"protected", "Bool", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Protected }, "the path is on the protected list"},
	{"risk", "Long", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Risk }, "0 to 100"},
	{"sandbox", "SandboxFacts", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return (*sandboxFacts)(&r.Facts) }, "what the machine offers where the program runs"},
	{"sandbox.tier", "String", sandboxTiers, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxTier }, "the mechanism"},
	{"sandbox.level", "String", sandboxLevels, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLevel }, "what of it holds, in one word"},
	{"sandbox.rung", "String", sandboxRungs, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxRung }, "of what the machine offers; `\"\"` for calls that start no program"},
	{"sandbox.layers", "Set<String>", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLayers }, "those that a probe proved, such as `landlock`, `seccomp`, `network_namespace`"},
	{"sandbox.limits", "String", sandboxLimits, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.SandboxLimits }, "what holds the limits"},
	{"sandbox.landlock_abi", "Long", nil, environment, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.LandlockABI }, "the version of Landlock that is in force, 0 for none"},
	{"egress", "EgressFacts", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return (*egressFacts)(&r.Facts) }, "what the call may reach"},
	{"egress.mode", "String", egressModes, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.EgressMode }, "`none` is the network of the host, also where others run the call; `\"\"` for calls that start no program and fetch nothing"},
	{"egress.hosts", "Set<String>", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.EgressHosts }, "canonical rules with their ports, such as `github.com:443` and `*.example.org:443`; empty for a program that runs offline"},
	{"egress.secrets", "Set<String>", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Secrets }, "names of the secrets that the call may use without seeing them, and of those that its program would get"},
	{"exec", "ExecFacts?", nil, bound, inAll, ofPlan, ByNobody, execOf, "of the resolved program"},
	{"exec.basename", "String", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Basename }, "`python3.12`, not `python`"},
	{"exec.path", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Path }, "absolute, symbolic links resolved"},
	{"exec.sha256", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.SHA256 }, "of its bytes"},
	{"exec.is_interpreter", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.IsInterpreter }, "it runs code that it is given: an interpreter, such as `python3.12`, or a shell"},
	{"exec.is_shell", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.IsShell }, "it is a shell, such as `bash`"},
	{"exec.inline_code", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.InlineCode }, "code stands in its arguments, or comes by standard input"},
	{"exec.in_workspace", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.InWorkspace }, "it is a file of the workspace"},
	{"exec.origin", "String", execOrigins, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Origin }, "where it comes from; a name alone says nothing of that"},
	{"exec.shebang", "String", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Exec.Shebang }, "the interpreter that a script names, `\"\"` for a binary"},
	{"exec.line", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Line }, "the whole command line, quoted as a shell has it: `git commit -m 'two words'`; not there for one of more than 16 KiB ([below](#command-lines-in-rules))"},
	{"exec.arg1", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Arg1 }, "the first argument: `push` of `git push origin`; not there where it is an option, or may be the value of one ([below](#command-lines-in-rules))"},
	{"exec.arg2", "String?", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Arg2 }, "the argument right after `arg1`, if it is no option"},
	{"exec.env", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Env }, "names of the variables that the call sets and that are not on the allow list of those which cannot change what runs; `?` where a line for a shell may set others ([below](#variables-and-inner-commands))"},
	{"exec.starts", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Exec.Starts }, "commands that the arguments have the program start, `pytest` of `uv run pytest`, named like those of `shell.commands`; `?` for one that is not certain ([below](#variables-and-inner-commands))"},
	{"shell", "ShellFacts?", nil, bound, inAll, ofPlan, ByNobody, shellOf, "what the gateway reads in a line for a shell ([below](#lines-for-a-shell))"},
	{"shell.dialect", "String", shellDialects, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Shell.Dialect }, "the language that the line is in"},
	{"shell.claimed", "Bool", nil, bound, inAll, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.Shell.Claimed }, "somebody else runs the line, and only says which one it is"},
	{"shell.parsed", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Parsed }, "the line could be read"},
	{"shell.known", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Known }, "nothing is left to find out when the line runs: it is `parsed`, not `dynamic`, has nothing `special`, and is not `claimed`"},
	{"shell.dynamic", "Bool", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Dynamic }, "a word is expanded: a parameter, a substitution, a pattern, a brace, a tilde"},
	{"shell.special", "Set<String>", tool.ShellSpecials, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Special }, "by what the line does more than its commands show"},
	{"shell.commands", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Commands }, "every command of the line without its directory, `rm`, and as it is written where that is something else, `./rm`; `?` unless the line is `known`, `>` where a redirect writes"},
	{"shell.subcommands", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Subcommands }, "every command with its first argument, `git push`; `git ?` where that is an option or not certain; `?` and `>` as above"},
	{"shell.lines", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Lines }, "every command whole, quoted like `exec.line`; `?` and `>` as above, and `?` alone for more than 16 KiB"},
	{"shell.origins", "Set<String>", shellOrigins, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Origins }, "where the commands come from, `shell` for what the shell does itself, and `local` for what was added to the system below `/usr/local`; `unknown` for what is not found, and unless the line is `known`"},
	{"shell.reads", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Reads }, "files that redirects read, `?` for one that is not known"},
	{"shell.writes", "Set<String>", nil, bound, inAll, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.Shell.Writes }, "files that redirects write, as they are written; `/dev/null` is none"},
	{"session", "SessionFacts", nil, fresh, inAll, ofPast, ByNobody, unremembered, "what the caller did lately, in the session that the gateway names ([sessions.md](sessions.md)) and no client can reset, as of the moment in which the call is decided"},
	{"session.calls_in_run", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.CallsInRun }, "of a run that palyrad drives, else of the session"},
	{"session.in_flight", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.InFlight }, "calls that have not ended"},
	{"session.tools_used", "Set<String>", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.ToolsUsed }, "of the calls that were let through"},
	{"session.secrets_read", "Set<String>", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.SecretsRead }, "of the calls that were let through"},
	{"session.tainted", "Bool", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.Tainted }, "something may have come in from the open world: by a tool that reads there, or by a program from a host"},
	{"session.bytes_out", "Long", nil, fresh, inAll, ofPast, ByNobody, func(r *Request) any { return &r.SessionFacts.BytesOut }, "sent, and reserved by calls under way"},
	{"workspace_mode", "String", workspaceModes, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.WorkspaceMode }, "how a program gets to see the workspace; `\"\"` for calls that start none"},
	{"changes", "ChangeFacts", nil, bound, inCommit, ofCommit, ByNobody, unremembered, "what the call changed in its copy of the workspace"},
	{"changes.root", "String", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Root }, "digest of the change set"},
	{"changes.added", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Added }, "how many files"},
	{"changes.modified", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Modified }, "how many files"},
	{"changes.deleted", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Deleted }, "how many files"},
	{"changes.bytes", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Bytes }, "that were written"},
	{"changes.protected", "Set<String>", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Protected }, "paths of protected changes"},
	{"changes.classes", "Set<String>", changeClasses, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Classes }, "why they are protected (below)"},
	{"changes.top", "Set<String>", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.Top }, "directories at the top of the workspace in which something changed, `.` for files and links of the workspace's own directory; `Docs` is there as `Docs` and `docs`, so that no spelling escapes a rule"},
	{"exit_code", "Long", nil, bound, inCommit, ofCommit, ByNobody, func(r *Request) any { return &r.Commit.ExitCode }, "of the program; -1 when it was stopped"},
	{"path_folded", "String?", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return foldedPath(&r.Facts) }, "`path` in the one spelling of all those under which a file system that folds case, or normalizes names, finds the same file: Unicode's full case folding, in NFC, without invisible characters; there whenever `path` is. `SECRETS/.ENV` is `secrets/.env` ([below](#paths-in-rules))"},
	{"hard_links", "Long", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.HardLinks }, "how many names the file has: 1 for an ordinary one; 0 for a directory, for a file that is not there yet, for a call about several files, and where the platform does not say (Windows)"},
	{"external", "ExternalFacts?", nil, bound, inCall, ofPlan, ByNobody, externalOf, "of a call that an agent runs itself ([hooks.md](hooks.md)); not there for any other. It rests on what the agent says"},
	{"external.agent", "String", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.External.Agent }, "which program asks: `claude-code`, `codex`, `generic`"},
	{"external.act", "String", externalActs(), bound, inCall, ofPlan, ByNobody, func(r *Request) any { return (*string)(&r.Facts.External.Act) }, "what the tool does, in one word for all agents"},
	{"external.permission_mode", "String", nil, bound, inCall, ofPlan, ByNobody, func(r *Request) any { return &r.Facts.External.PermissionMode }, "the agent's own mode, such as `bypassPermissions`; `\"\"` where it says none"},
	{"external.server", "String", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Server }, "the MCP server whose tool is called, by the name that the agent's configuration gives it, which any project can choose; `\"\"` for the agent's own tools"},
	{"external.outside", "Set<String>", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Outside }, "absolute paths that the call names and that are in no declared workspace"},
	{"external.guarded", "Set<String>", nil, bound, inCall, ofPlan, ByArgument, func(r *Request) any { return &r.Facts.External.Guarded }, "paths that the call may write to and that say what agents or the gateway run"},
	{"injection", "InjectionFacts", nil, bound, inInjection, ofCall, ByNobody, unremembered, "where the value of the secret goes"},
	{"injection.env", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Env }, "the variable with the value, or with the path of the file; `\"\"` for none"},
	{"injection.file", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().File }, "the path of the file inside, `\"\"` for none"},
	{"injection.server", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Server }, "the upstream server that gets it and has it until it stops ([upstreams.md](upstreams.md)); `\"\"` for the program of a call"},
	{"injection.skill", "String", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Skill }, "the skill whose guest gets it, in no variable and no file, and whose worker is killed after the call ([wasm.md](wasm.md)); `\"\"` for a program"},
	{"injection.version", "Long", nil, bound, inInjection, ofCall, ByNobody, func(r *Request) any { return &r.injection().Version }, "the version of the secret"},
}

// injection is what the request is about, if it is about one.
func (r *Request) injection() *tool.Injection { return copyOf(r.Injection) }

// FactNamed returns the row of a fact, nil for none.
func FactNamed(name string) *Fact {
	for i := range facts {
		if facts[i].Name == name {
			return &facts[i]
		}
	}
	return nil
}

// DescribedFacts are the rows that who describes a call can say one by one:
// records by their parts, and paths as they are.
func DescribedFacts() []Fact {
	return slices.DeleteFunc(slices.Clone(facts[:]), func(f Fact) bool {
		return !f.Described() || f.HasParts() || f.Name == "path_folded"
	})
}

// At points to where the fact stands in a request, nil where it stands in none.
// The record that it stands in becomes the request's own: no other that was
// copied from it changes.
func (f *Fact) At(r *Request) any {
	if f.at == nil || f.HasParts() {
		return nil
	}
	switch f.record() {
	case "exec":
		r.Facts.Exec = copyOf(r.Facts.Exec)
	case "external":
		r.Facts.External = copyOf(r.Facts.External)
	case "shell":
		r.Facts.Shell = copyOf(r.Facts.Shell)
	}
	if f.OfCommit() {
		r.Commit = copyOf(r.Commit)
	}
	return f.at(r)
}

func copyOf[T any](v *T) *T {
	var out T
	if v != nil {
		out = *v
	}
	return &out
}

// HasParts reports whether the fact is a record with rows of its own.
func (f *Fact) HasParts() bool {
	a := attributeOfName(types.String(f.Name))
	return a != 0 && contextFacts[a.index()].parts != nil
}

// OfCommit reports whether the fact is of a change set, and of no call.
func (f *Fact) OfCommit() bool { return f.origin == ofCommit }

// Described reports whether who describes a call says the fact as such: not what
// the call itself says, the time or the votes.
func (f *Fact) Described() bool {
	return f.at != nil && f.origin != ofCall && f.origin != ofClock
}

func (f *Fact) optional() bool { return strings.HasSuffix(f.Type, "?") }

// PlainType is the type without a word on whether the fact is there.
func (f *Fact) PlainType() string { return strings.TrimSuffix(f.Type, "?") }

// Brought reports whether a call brings the fact along, so that planning does
// not find it.
func (f *Fact) Brought() bool { return f.origin == ofCall || f.origin == ofCaller }

// record is the name of the record that the fact is in, "" for none.
func (f *Fact) record() string {
	name, _, inner := strings.Cut(f.Name, ".")
	if !inner {
		return ""
	}
	return name
}

// value is what a call has of a fact, nil for nothing. A record is made of its
// parts.
func (f *Fact) value(c *call, parts []part) types.Value {
	if f.at == nil {
		return nil
	}
	switch at := f.at(c.request).(type) {
	case nil:
		return nil
	case *string:
		return f.text(*at)
	case *access.Surface:
		return types.String(*at)
	case *bool:
		return types.Boolean(*at)
	case *int:
		if f.optional() && *at == 0 {
			return nil
		}
		return types.Long(*at)
	case *int64:
		return types.Long(*at)
	case *[]string:
		return stringSet(*at)
	case *[]tool.Capability:
		return stringSet(*at)
	case *time.Time:
		return types.NewDatetime(*at)
	case record:
		if key := at.key(); key != nil {
			return c.set.memo.get(key, func() types.Record { return recordOf(c, parts) })
		}
		return recordOf(c, parts)
	default:
		panic("policy: no value is made of the fact " + f.Name)
	}
}

// text is a text, or the entity of that name; none where it is empty.
func (f *Fact) text(s string) types.Value {
	switch {
	case !f.optional():
		return types.String(s)
	case s == "":
		return nil
	case f.PlainType() != "String":
		return types.NewEntityUID(types.EntityType(f.PlainType()), types.String(s))
	default:
		return types.String(s)
	}
}

// part is a fact that a record has, with its name there.
type part struct {
	name types.String
	*Fact
}

func recordOf(c *call, parts []part) types.Record {
	m := make(types.RecordMap, len(parts))
	for _, p := range parts {
		if v := p.value(c, nil); v != nil {
			m[p.name] = v
		}
	}
	return types.NewRecord(m)
}

// record is what is found of a record that is there. key is what its value is
// remembered by from call to call; nil for one that is another in each call.
type record interface{ key() any }

type (
	sandboxFacts tool.Facts
	egressFacts  tool.Facts
	execFacts    tool.ExecFacts
	always       struct{}
)

func (always) key() any { return nil }

func unremembered(*Request) any { return always{} }

// sandboxRecord is what a sandbox is remembered by.
type sandboxRecord struct {
	tier, level, rung, limits, layers string
	landlockABI                       int
}

func (f *sandboxFacts) key() any {
	return sandboxRecord{f.SandboxTier, f.SandboxLevel, f.SandboxRung, f.SandboxLimits, strings.Join(f.SandboxLayers, "\x00"), f.LandlockABI}
}

// egressRecord is what the egress of calls is remembered by that reach no host: the
// default policies read it of every call.
type egressRecord string

func (f *egressFacts) key() any {
	if len(f.EgressHosts)+len(f.Secrets) > 0 {
		return nil
	}
	return egressRecord(f.EgressMode)
}

// execRecord is what a program is remembered by: its facts as bytes.
type execRecord string

// key is nil for a call that sets variables or starts more: few repeat.
func (f *execFacts) key() any {
	if len(f.Env)+len(f.Starts) > 0 {
		return nil
	}
	r := &Request{Facts: tool.Facts{Exec: (*tool.ExecFacts)(f)}}
	row := &contextFacts[attrExec.index()]
	return execRecord(row.appendTo(nil, r, row.parts))
}

func execOf(r *Request) any {
	if r.Facts.Exec == nil {
		return nil
	}
	return (*execFacts)(r.Facts.Exec)
}

// externalOf is of no record that repeats: its paths are the call's own.
func externalOf(r *Request) any {
	if r.Facts.External == nil {
		return nil
	}
	return always{}
}

// shellOf is of no two calls the same: lines hardly repeat.
func shellOf(r *Request) any {
	if r.Facts.Shell == nil {
		return nil
	}
	return always{}
}

func externalActs() []string {
	names := make([]string, len(tool.Acts))
	for i, act := range tool.Acts {
		names[i] = string(act)
	}
	return names
}

func surfaceNames() []string {
	names := make([]string, 0, len(surfaces)+len(callSurfaces))
	for _, surface := range slices.Concat(surfaces, callSurfaces) {
		names = append(names, string(surface))
	}
	return names
}

func capabilityNames() []string {
	names := make([]string, len(tool.Capabilities))
	for i, c := range tool.Capabilities {
		names[i] = string(c)
	}
	return names
}
