package builtin

import (
	"cmp"
	"context"
	"maps"
	"path"
	"runtime"
	"slices"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// programCall is a validated input.
type programCall struct {
	in processInput
	// line is the shell line; nil for process.run.
	line    *line
	root    string
	name    string
	cwd     string
	mode    sandbox.WorkspaceMode
	program command.Program
	// missing is the error for a program that was not found; other errors take precedence.
	missing error
	// own is "./" and the workspace-relative path of a program in the workspace, "" for others.
	own string
	// asked is argv as the call gives it if in.Argv differs from it (see find), otherwise nil.
	asked []string
	// through are the workspace files that led to a program outside the workspace.
	through []string
	// repository is the git directory of a worktree whose repository is in another workspace.
	repository repository
	// called is the program's name in the command line.
	called string
	env    []string
	stdin  []byte
	limits sandbox.Limits
	// protected are the operator's patterns for the workspace.
	protected []string
	// machine is the sandbox as measured for this call, and net is the program's network.
	machine machine
	net     network
	// foreseen are the hosts that the command names and that its program may not reach.
	foreseen foreseen
	// caches are names of tools from the operator's list.
	caches []string
	// toolchains are the current toolchains, and search is the search path of programs.
	toolchains []command.Toolchain
	search     []string
	// injections are the secrets that the program receives as plain values.
	injections []tool.Injection
}

// check validates the input in a fixed order, so that a call with several errors always reports
// the same one: disabled, unsupported platform, bad input, program, inline code, workspace,
// egress, and finally missing features of the machine.
func (t process) check(ctx context.Context, p tool.Proposal) (programCall, error) {
	c, err := t.parse(p)
	if err != nil {
		return c, err
	}
	for _, step := range []func(*programCall) error{
		t.programs.known,
		t.resolveCwd,
		t.programs.readLine,
		func(c *programCall) (err error) { c.net, err = t.network.check(c.in.Hosts); return err },
		func(c *programCall) error { c.foreseen = t.foresee(ctx, *c); return nil },
		func(c *programCall) error { return t.secrets.offer(ctx, p, c) },
		func(c *programCall) error { return c.machine.available(c.mode) },
		func(c *programCall) error { return c.machine.confined(c.net) },
		func(c *programCall) error { return t.secrets.place(ctx, p, c) },
		func(c *programCall) error {
			if c.missing != nil && ofWorkspace(c.given()[0]) {
				return t.restrict(*c, c.missing)
			}
			return c.missing
		},
		func(c *programCall) error { return command.CheckRustup(c.program, c.in.Argv, c.toolchains) },
	} {
		if err := step(&c); err != nil {
			return c, err
		}
	}
	t.programs.name(&c)
	return c, nil
}

// Unusable returns the reason why no program can run here, nil if programs can run.
func (t process) Unusable() error { return cmp.Or(t.offered(), t.machine.measured().probed()) }

// offered returns the reason why the gateway runs no programs, independently of the machine.
func (t process) offered() error {
	if !t.policy.Enabled {
		return reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	return supported(runtime.GOOS)
}

// parse decodes the input and runs all checks that do not depend on the machine.
func (t process) parse(p tool.Proposal) (programCall, error) {
	c := programCall{limits: t.policy.Limits, caches: t.policy.Caches, machine: t.machine.measured(), net: network{mode: t.network.mode}}
	c.toolchains, c.search = t.programs.path()
	err := t.offered()
	if err != nil {
		return c, err
	}
	if c.in, c.line, err = t.read(p); err != nil {
		return c, err
	}
	if err := command.CheckArgv(c.in.Argv); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.in.Env)) {
		c.env = append(c.env, name+"="+c.in.Env[name])
	}
	if err := command.CheckEnv(c.env); err != nil {
		return c, err
	}
	if c.stdin, err = given(c.in.Stdin, c.in.StdinBase64, "stdin"); err != nil {
		return c, err
	}
	if err := checkTimeout("timeout_ms", c.in.TimeoutMS, t.most); err != nil {
		return c, err
	}
	c.limits.Wall = t.most
	if c.in.TimeoutMS > 0 {
		c.limits.Wall = time.Duration(c.in.TimeoutMS) * time.Millisecond
	}
	return c, nil
}

// supported refuses a platform without a backend.
func supported(goos string) error {
	if slices.Contains([]string{"linux", "darwin", "windows"}, goos) {
		return nil
	}
	return reason.Errorf(reason.PlatformUnknown, "no sandbox is available on %s", goos)
}

// resolveCwd resolves the workspace, the working directory and a program of the workspace.
func (t process) resolveCwd(c *programCall) error {
	root, err := t.set.Open(c.in.Workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	c.root, c.name = root.Path(), root.Name()
	c.repository.dir, c.repository.workspace, c.repository.rel = t.set.Repository(c.root)
	settings := t.policy.Workspaces[c.name]
	c.protected = settings.Protected
	switch {
	case root.ReadOnly() || c.in.ReadOnly:
		c.mode = sandbox.ReadOnly
	case settings.Direct && !c.in.DryRun:
		c.mode = sandbox.Direct
	default:
		c.mode = sandbox.CopyOnWrite
	}
	info, err := root.Stat(command.TrimMount(c.in.Cwd))
	if err == nil && info.Kind != workspace.Dir {
		err = reason.Errorf(reason.InvalidInput, "the working directory %q is a %s", info.Path, info.Kind).WithField("pointer", "/cwd")
	}
	if err != nil {
		return t.restrict(*c, err)
	}
	c.cwd = info.Path
	if err := t.programs.find(c, root); err != nil {
		return t.restrict(*c, err)
	}
	return nil
}

// restrict wraps an error that depends on the files of a workspace in a tool.RestrictedError. The
// plan of that error contains only the file names that the call gives.
func (t process) restrict(c programCall, err error) error {
	if wrong := t.programs.readLine(&c); wrong != nil {
		return wrong
	}
	c, local := t.programs.named(c)
	if !local {
		return err
	}
	plan := tool.Plan{
		Binding: tool.Binding{Cwd: c.location(), Argv: c.in.Argv}, Facts: factsOf(c), Preview: tool.Preview{Summary: summaryOf(c)},
	}
	plan.Contents, plan.Unlisted = c.contents(nil)
	return &tool.RestrictedError{Plan: plan, Detail: err}
}

// namedFacts returns the facts of the call as its arguments give it, nil if they equal facts.
func (t process) namedFacts(c programCall, facts tool.Facts) *tool.Facts {
	if c.own == "" && len(c.through) == 0 && c.cwd == path.Clean(command.TrimMount(c.in.Cwd)) && len(facts.Exec.Starts) == 0 {
		return nil
	}
	only, local := t.programs.named(c)
	if !local {
		return nil
	}
	named := factsOf(only)
	return &named
}

// mostContents limits the number of file names for which policy decides whether facts about the
// files may be disclosed to the caller.
const mostContents = 64

// given returns argv as the call gives it.
func (c programCall) given() []string {
	if c.asked != nil {
		return c.asked
	}
	return c.in.Argv
}

// contents returns the files that a plan inspected: the working directory, the program of the
// workspace or the files that led to another program, and looked, the names in the arguments.
// more reports that the list is truncated.
func (c programCall) contents(looked []string) (list []tool.FileAccess, more bool) {
	names := slices.Concat(looked, c.through, c.foreseen.files)
	if c.cwd != "." {
		names = append(names, c.cwd)
	}
	if c.own != "" {
		names = append(names, path.Clean(c.own))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names[:min(len(names), mostContents)] {
		list = append(list, readAccess(c.name, name, 0))
	}
	return list, len(names) > mostContents
}

// codeFromStdin reports whether the standard input of the call is the program itself.
func (c programCall) codeFromStdin() bool {
	return len(c.stdin) > 0 && c.program.ReadsCodeFromStdin(c.in.Argv)
}

// location names the working directory for a binding.
func (c programCall) location() string { return c.name + ":" + c.cwd }

// operands returns the workspace files to which the call is bound.
func (c programCall) operands() (command.Named, error) {
	if c.line != nil {
		return c.line.operands(c.root, c.cwd)
	}
	return command.Operands(c.root, c.cwd, c.in.Argv, cmp.Or(c.program.Copy, c.program.Basename))
}

// factsOf names a program of the workspace by its path, so that a policy about git does not match a
// workspace file named git.
func (c programCall) facts() *tool.ExecFacts {
	facts := c.program.Facts(c.in.Argv)
	if c.own != "" {
		facts.Basename, facts.InWorkspace, facts.Origin = c.own, true, tool.OriginWorkspace
	}
	facts.InlineCode = facts.InlineCode || c.codeFromStdin()
	facts.Env, facts.Starts = c.variables(), c.starts()
	if line := text.ShellQuote(append([]string{c.called}, c.in.Argv[1:]...)); len(line) <= longestLine {
		facts.Line = line
	}
	return facts
}

// longestLine is the maximum length of a command line for policies, in bytes. The journal records
// the line with each decision, in addition to the arguments.
const longestLine = 16 << 10
