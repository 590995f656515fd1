package builtin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/workspace"
)

const processName = "process.run"

// Risk of a program; docs/tools.md has the table.
const (
	riskProcess       = 40
	riskInterpreter   = 15
	riskWritable      = 10
	riskOwnExecutable = 10
)

// process runs one program in the sandbox.
type process struct {
	set      *workspace.Set
	runner   sandbox.Runner
	measured sandbox.Status
	policy   ProcessPolicy
	version  string
	most     time.Duration
	resolver *sandbox.Resolver
}

func newProcess(cfg Config) process {
	policy := cfg.Process
	policy.Limits = policy.Limits.OrDefault()
	if len(policy.SearchPath) == 0 {
		policy.SearchPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}
	}
	return process{
		set: cfg.Workspaces, runner: cfg.Runner, measured: cfg.Sandbox, policy: policy, version: cfg.Version,
		most: min(policy.Limits.Wall, cfg.MaxTimeout), resolver: new(sandbox.Resolver),
	}
}

type processInput struct {
	Argv        []string          `json:"argv"`
	Workspace   string            `json:"workspace"`
	Cwd         string            `json:"cwd"`
	Env         map[string]string `json:"env"`
	Stdin       *string           `json:"stdin"`
	StdinBase64 *string           `json:"stdin_base64"`
	TimeoutMS   int64             `json:"timeout_ms"`
	ReadOnly    bool              `json:"read_only"`
}

func (process) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: processName, Title: "Run a program",
		Description: "Run one program in a sandbox: no network, only the workspace (at /workspace) is writable, and the whole process tree ends with the call. " +
			"argv is passed as it is; there is no shell, so write no pipes, globs or redirections. Shells, programs that start others, and inline code for " +
			"interpreters (such as python -c) are refused: write the code to a workspace file and run the file. A non-zero exit code is a result.",
		InputSchema: schema(`"argv"`,
			`"argv": {"type": "array", "minItems": 1, "maxItems": 128, "items": {"type": "string", "maxLength": 131072}, "description": "Program and arguments. The program is a name such as git, an absolute path, or a path in the workspace that has a slash."}`,
			workspaceProperty,
			`"cwd": {"type": "string", "maxLength": 4096, "description": "Working directory, relative to the workspace. Default: the workspace."}`,
			`"env": {"type": "object", "maxProperties": 64, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"}, "additionalProperties": {"type": "string", "maxLength": 32768}, "description": "Environment variables in addition to PATH, HOME, LANG and TERM. Names that steer loaders or interpreters are refused."}`,
			`"stdin": {"type": "string", "description": "What the program reads from standard input, as text. Default: nothing."}`,
			`"stdin_base64": {"type": "string", "description": "The same as base64."}`,
			`"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "Deadline in milliseconds, at which the whole process tree is killed. Default and most: the operator's limit."}`,
			`"read_only": {"type": "boolean", "description": "Mount the workspace read-only. Default false."}`,
		),
		Capabilities: []tool.Capability{tool.ProcessExec}, Executor: processExecutor(), Destructive: true,
	}
}

func processExecutor() tool.Executor {
	switch runtime.GOOS {
	case "darwin":
		return tool.TierCSeatbelt
	case "windows":
		return tool.TierCJobObject
	}
	return tool.TierCBubblewrap
}

// command is a checked input.
type command struct {
	in       processInput
	root     string
	name     string
	cwd      string
	readOnly bool
	program  sandbox.Program
	// own is "./" and the workspace-relative path of a program that is a file
	// of the workspace, "" for others.
	own    string
	env    []string
	stdin  []byte
	limits sandbox.Limits
}

func (t process) check(p tool.Proposal) (command, error) {
	in, err := decode[processInput](p.Input)
	if err != nil {
		return command{}, err
	}
	if err := t.available(); err != nil {
		return command{}, err
	}
	c := command{in: in, limits: t.policy.Limits}
	if err := sandbox.CheckArgv(in.Argv); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		c.env = append(c.env, name+"="+in.Env[name])
	}
	if err := sandbox.CheckEnv(c.env); err != nil {
		return c, err
	}
	if c.stdin, err = given(in.Stdin, in.StdinBase64, "stdin"); err != nil {
		return c, err
	}
	if err := checkTimeout("timeout_ms", in.TimeoutMS, t.most); err != nil {
		return c, err
	}
	c.limits.Wall = t.most
	if in.TimeoutMS > 0 {
		c.limits.Wall = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	if err := t.place(&c); err != nil {
		return c, err
	}
	return c, t.judge(&c)
}

// available refuses when nothing can be run at all.
func (t process) available() error {
	switch {
	case !t.policy.Enabled:
		return reason.Errorf(reason.SandboxDisabled, "running programs is switched off")
	case t.policy.Egress != egress.Strict:
		return reason.Errorf(reason.EgressDenied, "egress mode %s is not available yet", t.policy.Egress).
			WithRemedy("Set process_runner.egress_enforcement_mode = \"strict\".")
	case t.runner == nil:
		return reason.Errorf(reason.SandboxUnavailable, "there is no sandbox on this machine")
	case !t.measured.Available:
		return t.missing()
	}
	return nil
}

// missing says what the probe found wanting. Nobody is asked about a call that
// cannot run.
func (t process) missing() error {
	problem := cmp.Or(t.measured.Problem, "the sandbox was not probed")
	if processExecutor() != tool.TierCBubblewrap {
		return reason.Errorf(reason.PlatformUnknown, "%s", problem)
	}
	remedy := cmp.Or(t.measured.Remedy, reason.Lookup(reason.SandboxUnavailable).Remedy)
	return reason.Errorf(reason.SandboxUnavailable, "%s", problem).
		WithRemedy("%s Then restart palyrad, which probes the sandbox at its start.", remedy)
}

// place finds workspace, working directory and program.
func (t process) place(c *command) error {
	root, err := t.set.Open(c.in.Workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	c.root, c.name, c.readOnly = root.Path(), root.Name(), root.ReadOnly() || c.in.ReadOnly
	info, err := root.Stat(inWorkspace(c.in.Cwd))
	if err != nil {
		return err
	}
	if info.Kind != workspace.Dir {
		return reason.Errorf(reason.InvalidInput, "the working directory %q is a %s", info.Path, info.Kind).WithField("pointer", "/cwd")
	}
	c.cwd = info.Path
	return t.find(c, root)
}

// inWorkspace takes off the name that the workspace has inside the sandbox.
func inWorkspace(p string) string {
	if p == sandbox.WorkspaceMount {
		return "."
	}
	return strings.TrimPrefix(p, sandbox.WorkspaceMount+"/")
}

func (t process) find(c *command, root *workspace.Root) error {
	name := c.in.Argv[0]
	relative := strings.Contains(name, "/") && !path.IsAbs(name)
	if inside := inWorkspace(name); inside != name {
		relative, name = true, inside
	} else if relative {
		name = path.Join(c.cwd, name)
	}
	if relative {
		info, err := root.Stat(name)
		if err != nil {
			return err
		}
		name = filepath.Join(root.Path(), filepath.FromSlash(info.Path))
	}
	program, err := t.resolver.ResolveExecutable(name, t.policy.SearchPath)
	if err != nil {
		return err
	}
	c.program = program
	if rest, own := strings.CutPrefix(program.Path, strings.TrimSuffix(root.Path(), "/")+"/"); own {
		c.own = "./" + rest
		c.program = t.resolver.CopyOf(program, t.policy.SearchPath)
	}
	return nil
}

// judge applies the operator's lists and the guards, in the order of their
// errors: the program first, then inline code.
func (t process) judge(c *command) error {
	if err := c.program.Check(t.policy.AllowInterpreters); err != nil {
		return err
	}
	if !t.allowed(c) {
		return reason.Errorf(reason.ExecutableDenied, "the program %s is not in process_runner.allowed_executables", c.program.Path)
	}
	if c.program.Facts(c.in.Argv).InlineCode {
		return reason.Errorf(reason.InlineCode, "inline code for %s is refused", c.program.Basename)
	}
	if len(c.stdin) > 0 && c.program.ReadsCodeFromStdin(c.in.Argv) {
		return reason.Errorf(reason.InlineCode, "%s would take its program from standard input", c.program.Basename)
	}
	return nil
}

// allowed matches the program with the operator's list. A base name means a
// program of the search path, never a file of the same name in the workspace.
func (t process) allowed(c *command) bool {
	if len(t.policy.AllowedExecutables) == 0 {
		return true
	}
	name := c.in.Argv[0]
	system := c.own == "" && (!strings.Contains(name, "/") || slices.Contains(t.policy.SearchPath, path.Dir(name)))
	return slices.ContainsFunc(t.policy.AllowedExecutables, func(allowed string) bool {
		if filepath.IsAbs(allowed) {
			return allowed == c.program.Path || system && allowed == name
		}
		return system && (allowed == c.program.Basename || allowed == c.program.Called)
	})
}

func (t process) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	c, err := t.check(p)
	if err != nil {
		return tool.Plan{}, err
	}
	operands, notes, err := c.operands()
	if err != nil {
		return tool.Plan{}, err
	}
	notes = append(notes, "Files that the program reads by itself, beyond those named here, are not bound to the approval.")
	if !c.readOnly {
		notes = append(notes, "The workspace is writable: the program may change any file of the workspace, git hooks and agent configuration included.")
	}
	return tool.Plan{
		Binding: tool.Binding{
			Cwd: c.place(), Argv: c.in.Argv, Environment: c.env, Executable: c.program.Executable,
			Operands: operands, SandboxProfile: c.profile(), Egress: []string{egress.Strict.String()},
		},
		Facts: tool.Facts{
			Workspace: c.name, Path: c.cwd, Exec: c.facts(), Risk: c.risk(),
			SandboxTier: "c", SandboxLevel: sandbox.Level(t.measured.Requested, t.measured.Layers), EgressMode: egress.Strict.String(),
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Run %s in %s:%s, offline, %s.", c.program.Path, c.name, c.cwd, c.access()),
			Notes:   notes,
		},
		Subject: fmt.Sprintf("%s:%s@%s", processName, c.program.Path, c.name),
	}, nil
}

// place is the working directory as a binding names it.
func (c command) place() string { return c.name + ":" + c.cwd }

// operands are the workspace files that the call is bound to.
func (c command) operands() ([]tool.Operand, []string, error) {
	return sandbox.Operands(c.root, c.cwd, c.in.Argv, cmp.Or(c.program.Copy, c.program.Basename))
}

// facts names a program of the workspace by its path, so that a policy about
// git is not about a file of that name.
func (c command) facts() *tool.ExecFacts {
	facts := c.program.Facts(c.in.Argv)
	facts.Basename = cmp.Or(c.own, facts.Basename)
	return facts
}

func (c command) access() string {
	if c.readOnly {
		return "workspace read-only"
	}
	return "workspace writable"
}

// profile names everything of the sandbox that the call decides.
func (c command) profile() string {
	mode := "rw"
	if c.readOnly {
		mode = "ro"
	}
	l := c.limits
	return fmt.Sprintf("tier_c workspace=%s wall_ms=%d cpu_ms=%d memory=%d output=%d processes=%d open_files=%d file_size=%d tmp=%d",
		mode, l.Wall.Milliseconds(), l.CPU.Milliseconds(), l.Memory, l.Output, l.Processes, l.OpenFiles, l.FileSize, l.Tmp)
}

func (c command) risk() int {
	risk := riskProcess
	if c.program.IsInterpreter() {
		risk += riskInterpreter
	}
	if !c.readOnly {
		risk += riskWritable
	}
	if c.own != "" {
		risk += riskOwnExecutable
	}
	return min(risk, 100)
}
