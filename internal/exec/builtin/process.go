package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

const processName = "process.run"

// Risk of a program; docs/tools.md has the table.
const (
	riskProcess       = 40
	riskInterpreter   = 15
	riskDirect        = 10
	riskCopy          = 5
	riskOwnExecutable = 10
	riskLowerRung     = 10
	riskNetwork       = 20
	riskHosts         = 10
)

// process runs one program in the sandbox: the program of a process.run call, or the shell of a
// shell.run call.
type process struct {
	// toolName is the name of the tool, and read decodes its input.
	toolName string
	read     func(p tool.Proposal) (processInput, *line, error)
	set      *workspace.Set
	policy   ProcessPolicy
	most     time.Duration
	machine  machine
	programs programFinder
	network  networkRules
	secrets  secretLoans
	runner   programRunner
}

func newProcess(cfg Config) process {
	policy := cfg.Process
	policy.Limits = policy.Limits.OrDefault()
	if policy.Author == nil {
		policy.Author = func() command.Author { return command.Author{} }
	}
	if policy.Turns == nil {
		const waiting = 1024
		policy.Turns = limit.NewQueue(DefaultConcurrent, waiting)
	}
	network := networkRules{mode: policy.Egress, reach: policy.Reach, resolver: policy.Resolver, interfaces: policy.Interfaces}
	secrets := secretLoans{cfg.Lender}
	return process{
		toolName: processName, read: readProcess, set: cfg.Workspaces, policy: policy, most: min(policy.Limits.Wall, cfg.MaxTimeout),
		machine: machine{runner: cfg.Runner, status: cfg.Sandbox, required: policy.Required}, programs: newProgramFinder(policy), network: network, secrets: secrets,
		runner: programRunner{version: cfg.Version, network: network, secrets: secrets, turns: policy.Turns, history: policy.History, author: policy.Author, openCaches: policy.OpenCaches},
	}
}

type processInput struct {
	Argv []string `json:"argv"`
	runInput
}

// runInput is the common part of the inputs: directory, environment, input, limits and access.
type runInput struct {
	Workspace   string            `json:"workspace"`
	Cwd         string            `json:"cwd"`
	Env         map[string]string `json:"env"`
	Stdin       *string           `json:"stdin"`
	StdinBase64 *string           `json:"stdin_base64"`
	TimeoutMS   int64             `json:"timeout_ms"`
	ReadOnly    bool              `json:"read_only"`
	DryRun      bool              `json:"dry_run"`
	Hosts       []string          `json:"hosts"`
	Secrets     []string          `json:"secrets"`
}

func (process) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: processName, Title: "Run a program",
		Description: "Run one program in a sandbox: it reaches the hosts that the operator allows and nothing else, only the workspace (at /workspace) is writable, and the whole " +
			"process tree ends with the call. argv is passed as it is; there is no shell, so write no pipes, globs or redirections. Programs that start others, " +
			"such as env and sudo, are refused, and inline code (such as python -c) may be: write the code to a workspace file and run the file. What the program writes " +
			"goes to a copy and is committed to the workspace when it ends, if policy allows it; changes of git hooks, agent configuration and the like ask a person. " +
			"The field changes of the result says what became of them, and notes name hosts that it tried to reach in vain. A non-zero exit code is a result.",
		InputSchema: programSchema(`"argv"`,
			`"argv": {"type": "array", "minItems": 1, "maxItems": 128, "items": {"type": "string", "maxLength": 131072}, "description": "Program and arguments. The program is a name such as git, an absolute path, or a path in the workspace that has a slash."}`,
		),
		Capabilities: []tool.Capability{tool.ProcessExec}, Executor: processExecutor(), Destructive: true,
	}
}

// programSchema returns the schema of a tool that runs programs: its own properties and the
// common ones.
func programSchema(required string, own ...string) json.RawMessage {
	return schema(required, append(own,
		workspaceProperty,
		`"cwd": {"type": "string", "maxLength": 4096, "description": "Working directory, relative to the workspace. Default: the workspace."}`,
		`"env": {"type": "object", "maxProperties": 64, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"}, "additionalProperties": {"type": "string", "maxLength": 32768}, "description": "Environment variables in addition to PATH, HOME, LANG and TERM. Names that steer loaders or interpreters are refused."}`,
		`"stdin": {"type": "string", "description": "What the program reads from standard input, as text. Default: nothing."}`,
		`"stdin_base64": {"type": "string", "description": "The same as base64."}`,
		`"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "Deadline in milliseconds, at which the whole process tree is killed. Default and most: the operator's limit."}`,
		`"read_only": {"type": "boolean", "description": "Mount the workspace read-only. Default false."}`,
		`"dry_run": {"type": "boolean", "description": "Run on a copy and commit nothing: the result shows what would change. Default false."}`,
		`"hosts": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 300}, "description": "host:port of everything that the program will connect to; it then reaches these and nothing else. Each has to be allowed by the operator. [] for none: the program runs offline. Default: all that the operator allows, which may be none."}`,
		`"secrets": {"type": "array", "maxItems": 8, "items": {"type": "string", "minLength": 1, "maxLength": 300}, "description": "Secrets that the program needs as they are, by the references that secrets.list has under injectable, such as global/aws. A person is asked about each. The program finds them in the variable or file that is listed there; what it writes shows their names instead. Ask for them only when no placeholder will do. Default: none."}`,
	)...)
}

func readProcess(p tool.Proposal) (processInput, *line, error) {
	in, err := decode[processInput](p.Input)
	return in, nil, err
}

func processExecutor() tool.Executor {
	return executorOn(runtime.GOOS)
}

// executorOn returns the executor for programs on a system without another backend.
func executorOn(system string) tool.Executor {
	switch system {
	case "darwin":
		return tool.TierCSeatbelt
	case "windows":
		return tool.TierB // a job object limits a program but does not isolate it
	}
	return tool.TierCBubblewrap
}

func (t process) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	c, err := t.check(ctx, p)
	if err != nil {
		return tool.Plan{}, err
	}
	return t.plan(c)
}

// Prepare checks the call again, so that the run uses the program, the working directory and
// the named files that were decided on. The sandbox checks the program once more when it opens
// it, and pins the files if the workspace is a copy.
func (t process) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	c, err := t.check(ctx, p)
	if err != nil {
		return tool.Prepared{}, err
	}
	plan, err := t.plan(c)
	run := func(ctx context.Context, call tool.Call) tool.Report { return t.runner.run(ctx, call, c) }
	return tool.Prepared{Plan: plan, Run: run}, err
}

func (t process) plan(c programCall) (tool.Plan, error) {
	named, err := c.operands()
	if err != nil {
		return tool.Plan{}, t.restrict(c, err)
	}
	contents, more := c.contents(named.Looked)
	facts := factsOf(c)
	return tool.Plan{
		Contents: contents, Unlisted: more, Named: t.namedFacts(c, facts),
		Binding: tool.Binding{
			Cwd: c.location(), Argv: c.in.Argv, Environment: slices.Concat(c.env, c.placeholders(), envsecret.Bound(c.injections)), Executable: c.program.Executable,
			Operands: named.Operands, SandboxProfile: profileOf(c), Egress: c.net.lines(), Parsed: c.parsed(),
		},
		Facts: facts,
		Preview: tool.Preview{
			Summary: summaryOf(c),
			Notes:   append(named.Notes, notesOf(c)...),
		},
		Subject: fmt.Sprintf("%s:%s@%s", t.toolName, c.program.Path, c.name), SubjectCovers: t.anyCall(c), ExactOnly: c.exactOnly(),
		DeniedHosts: c.foreseen.lines(), MaySend: c.net.maySend(), UnboundArguments: named.Unbound, Injections: c.injections,
	}, nil
}

func factsOf(c programCall) tool.Facts {
	return tool.Facts{
		Workspace: c.name, Path: c.cwd, Exec: c.facts(), Shell: c.shellFacts(), Risk: riskOf(c),
		SandboxTier: c.machine.tier(), SandboxLevel: sandbox.Level(c.net.mode, c.machine.status.Requested, c.machine.status.Layers),
		SandboxRung: string(c.machine.status.Rung), SandboxLayers: slices.Sorted(slices.Values(c.machine.status.Layers)), SandboxLimits: c.machine.status.Limits, LandlockABI: c.machine.status.LandlockABI,
		WorkspaceMode: string(c.mode), EgressMode: c.net.mode.String(), EgressHosts: c.net.hosts, Secrets: c.secrets(),
	}
}

// summaryOf describes the command line, the place where it runs, and unusual settings:
//
//	git push --force in here, writing to the workspace itself, which may reach github.com:443 and nothing else
func summaryOf(c programCall) string {
	text := commandLine(c.typed(), shownCommand) + " in " + c.name
	if c.cwd != "." {
		text += ":" + c.cwd
	}
	switch {
	case c.in.DryRun:
		text += ", on a copy that is thrown away"
	case c.mode == sandbox.Direct:
		text += ", writing to the workspace itself"
	}
	if !c.net.offline() {
		text += ", " + c.net.description()
	}
	if secrets := c.secrets(); len(secrets) > 0 {
		text += ", with the secrets " + strings.Join(secrets, ", ")
	}
	if pairs := c.shownVariables(); len(pairs) > 0 {
		text += ", setting " + commandLine(pairs, shownCommand)
	}
	return text
}

// anyCall describes the scope of a grant for the program. The grant covers all arguments and
// hosts, so it includes everything that the operator's rules permit the program to reach, even
// if this call requests less.
func (t process) anyCall(c programCall) string {
	text := fmt.Sprintf("any %s command, any arguments but those that start other programs, without variables that may change what runs, in workspace %s", c.program.Basename, c.name)
	if c.net.mode != egress.Strict || len(t.network.reach.Rules.Allow) > 0 {
		text += ", with the network that programs may use here"
	}
	return text
}

// exactOnly returns the reason why a grant for the program would cover arbitrary code.
func (c programCall) exactOnly() string {
	if c.own != "" {
		return c.own + " is a file of the workspace, which may be another by then"
	}
	if why := c.program.RunsAnything(); why != "" {
		return why
	}
	return c.more()
}

// notesOf are displayed to the approver in addition to the operands.
func notesOf(c programCall) []string {
	notes := []string{"Files that the program reads by itself, beyond those named here, are not bound to the approval."}
	switch {
	case c.in.DryRun:
		notes = append(notes, "Nothing that the program changes is committed.")
	case c.mode == sandbox.CopyOnWrite:
		notes = append(notes, "The changes of the program reach the workspace only if policy allows them after it has ended; by default git hooks, agent configuration and other protected files ask again.")
	case c.mode == sandbox.Direct:
		notes = append(notes, "The workspace is writable: the program may change any file of the workspace while it runs. Protected files that exist are pinned, and new ones are moved away only after it has ended.")
	}
	if len(c.caches) > 0 {
		notes = append(notes, "The caches of "+strings.Join(c.caches, ", ")+" are shared with other runs in this workspace, and their content is not inspected.")
	}
	notes = append(notes, c.namesakes()...)
	notes = append(notes, c.throughNotes()...)
	notes = append(notes, c.moreNotes()...)
	notes = append(notes, c.line.notes()...)
	notes = append(notes, c.net.notes()...)
	notes = append(notes, c.foreseen.notes()...)
	notes = append(notes, c.injectionNotes()...)
	if c.machine.lowerRung() {
		notes = append(notes, fmt.Sprintf("This machine gives less isolation than Tier C: the program runs in Tier %s (%s).", strings.ToUpper(c.machine.tier()), c.machine.status.Rung))
	}
	return notes
}

// namesakes lists other programs of the same name, because the approver may expect one of those.
func (c programCall) namesakes() []string {
	name := c.in.Argv[0]
	if c.own != "" || strings.Contains(name, "/") {
		return nil
	}
	found := command.Namesakes(name, c.search, c.toolchains)
	if len(found) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("There is more than one %s: %s runs, not %s.", name, c.program.Path, strings.Join(found[1:], " or "))}
}

// shownToolchains names the toolchain directories that are visible in the sandbox.
func (c programCall) shownToolchains() string {
	var bins []string
	for _, chain := range c.toolchains {
		bins = append(bins, chain.Bins...)
	}
	return strings.Join(bins, ":")
}

// profileOf lists all sandbox settings that the call or the configuration determines.
func profileOf(c programCall) string {
	l := c.limits
	repository := ""
	if c.repository.dir != "" {
		repository = " repository=" + c.repository.dir
	}
	return fmt.Sprintf("tier=%s rung=%s workspace=%s dry_run=%t caches=%s toolchains=%s required=%s wall_ms=%d cpu_ms=%d memory=%d output=%d processes=%d open_files=%d file_size=%d tmp=%d disk=%d files=%d%s",
		c.machine.tier(), cmp.Or(string(c.machine.status.Rung), string(sandbox.Full)), c.mode, c.in.DryRun, strings.Join(c.caches, ","), c.shownToolchains(), strings.Join(c.machine.required, ","),
		l.Wall.Milliseconds(), l.CPU.Milliseconds(), l.Memory, l.Output, l.Processes, l.OpenFiles, l.FileSize, l.Tmp, l.Disk, l.Files, repository)
}

func riskOf(c programCall) int {
	risk := riskProcess
	for _, part := range []struct {
		applies bool
		risk    int
	}{
		{c.program.IsInterpreter(), riskInterpreter},
		{c.mode == sandbox.Direct, riskDirect},
		{c.mode == sandbox.CopyOnWrite && !c.in.DryRun, riskCopy},
		{c.own != "", riskOwnExecutable},
		{c.machine.lowerRung(), riskLowerRung},
		{c.net.mode != egress.Strict, riskNetwork},
		{c.net.granted() != nil, riskHosts},
	} {
		if part.applies {
			risk += part.risk
		}
	}
	return min(risk, 100)
}
