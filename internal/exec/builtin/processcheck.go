package builtin

import (
	"cmp"
	"context"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// layerCopyOnWrite is the layer that provides copies of a workspace.
const layerCopyOnWrite = string(sandbox.CopyOnWrite)

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
	// hosts are canonical, sorted and without duplicates: in mode strict the hosts that the
	// program may reach, in mode preflight the hosts that were checked.
	hosts []string
	// grant is the reach of the program in mode strict.
	grant egress.Reach
	// moreSecrets reports that the vault has more secrets than the grant.
	moreSecrets bool
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
		t.known,
		t.resolveCwd,
		t.readLine,
		t.checkHosts,
		func(c *programCall) error { return t.offerSecrets(ctx, p, c) },
		t.available,
		t.confined,
		func(c *programCall) error { return t.checkSecrets(ctx, p, c) },
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
	t.name(&c)
	return c, nil
}

// Unusable returns the reason why no program can run here, nil if programs can run.
func (t process) Unusable() error { return cmp.Or(t.offered(), t.asMeasured().probed()) }

// offered returns the reason why the gateway runs no programs, independently of the machine.
func (t process) offered() error {
	if !t.policy.Enabled {
		return reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	return supported(runtime.GOOS)
}

// parse decodes the input and runs all checks that do not depend on the machine.
func (t process) parse(p tool.Proposal) (programCall, error) {
	c := programCall{limits: t.policy.Limits, caches: t.policy.Caches, toolchains: t.policy.Toolchains(), search: slices.Clone(t.policy.SearchPath)}
	for _, chain := range c.toolchains {
		c.search = append(c.search, chain.Bins...)
	}
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

// known checks the program by its name, and a program of the machine by its file. A program of
// the workspace is checked when the workspace is open.
func (t process) known(c *programCall) error {
	name := c.in.Argv[0]
	if err := command.Denied(path.Base(name), t.interpreters()); err != nil {
		return err
	}
	if ofWorkspace(name) {
		return nil
	}
	c.program, c.missing = t.resolver.ResolveExecutable(name, c.search)
	c.program = c.program.From(c.toolchains)
	if c.missing != nil {
		if reason.Of(c.missing) == reason.InvalidInput {
			return c.missing
		}
		return nil
	}
	return t.judge(c)
}

// ofWorkspace reports whether argv[0] is written as a file of the workspace.
func ofWorkspace(name string) bool {
	_, is := command.Inside(name, "", "")
	return is
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
	if err := t.find(c, root); err != nil {
		return t.restrict(*c, err)
	}
	return nil
}

// restrict wraps an error that depends on the files of a workspace in a tool.RestrictedError. The
// plan of that error contains only the file names that the call gives.
func (t process) restrict(c programCall, err error) error {
	if wrong := t.readLine(&c); wrong != nil {
		return wrong
	}
	c, local := t.named(c)
	if !local {
		return err
	}
	plan := tool.Plan{
		Binding: tool.Binding{Cwd: c.location(), Argv: c.in.Argv}, Facts: t.facts(c), Preview: tool.Preview{Summary: t.summary(c)},
	}
	plan.Contents, plan.Unlisted = c.contents(nil)
	return &tool.RestrictedError{Plan: plan, Detail: err}
}

// named returns the call as its arguments give it, without file access. It returns false for a
// call that names files outside the workspace.
func (t process) named(c programCall) (programCall, bool) {
	c.in.Argv, c.asked, c.through = c.given(), nil, nil
	cwd := path.Clean(command.TrimMount(c.in.Cwd))
	inside, own := command.Inside(c.in.Argv[0], c.root, cwd)
	c.root, c.cwd = "", cwd
	if !own {
		t.name(&c)
		return c, filepath.IsLocal(c.cwd)
	}
	c.own, c.program = "./"+inside, command.Program{Executable: tool.Executable{Path: "./" + inside}, Basename: path.Base(inside)}
	t.name(&c)
	return c, filepath.IsLocal(c.cwd) && filepath.IsLocal(inside)
}

// namedFacts returns the facts of the call as its arguments give it, nil if they equal facts.
func (t process) namedFacts(c programCall, facts tool.Facts) *tool.Facts {
	if c.own == "" && len(c.through) == 0 && c.cwd == path.Clean(command.TrimMount(c.in.Cwd)) && len(facts.Exec.Starts) == 0 {
		return nil
	}
	only, local := t.named(c)
	if !local {
		return nil
	}
	named := t.facts(only)
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
	names := slices.Concat(looked, c.through)
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

// judge applies the operator's lists and the guards, in the order of their errors: first the
// program, then inline code.
func (t process) judge(c *programCall) error {
	if err := c.program.Check(t.interpreters()); err != nil {
		return err
	}
	if !t.allowed(c) {
		return reason.Errorf(reason.ExecutableDenied, "the program %s is not in process_runner.allowed_executables", c.program.Path)
	}
	switch {
	case t.interpreters() == command.InterpretersByPolicy:
		return nil
	case c.program.Facts(c.in.Argv).InlineCode:
		return reason.Errorf(reason.InlineCode, "inline code for %s is refused", c.program.Basename)
	case c.codeFromStdin():
		return reason.Errorf(reason.InlineCode, "%s would read its program from standard input", c.program.Basename)
	}
	return nil
}

// codeFromStdin reports whether the standard input of the call is the program itself.
func (c programCall) codeFromStdin() bool {
	return len(c.stdin) > 0 && c.program.ReadsCodeFromStdin(c.in.Argv)
}

// interpreters returns the rule for interpreters. In Tier C the sandbox contains them, and policy
// receives them as facts.
func (t process) interpreters() command.Interpreters {
	switch allow := t.policy.AllowInterpreters; {
	case allow == nil && t.tier() == string(sandbox.TierC):
		return command.InterpretersByPolicy
	case allow != nil && *allow:
		return command.InterpretersOfFiles
	}
	return command.NoInterpreters
}

// allowed matches the program with the operator's list. A base name means a program of the search
// path, never a file of the same name in the workspace.
func (t process) allowed(c *programCall) bool {
	if len(t.policy.AllowedExecutables) == 0 {
		return true
	}
	name, called := c.in.Argv[0], c.program.Called
	if len(c.through) > 0 {
		name, called = c.program.Path, c.program.Basename
	}
	system := c.own == "" && (!strings.Contains(name, "/") || slices.Contains(c.search, path.Dir(name)))
	return slices.ContainsFunc(t.policy.AllowedExecutables, func(allowed string) bool {
		if filepath.IsAbs(allowed) {
			return allowed == c.program.Path || system && allowed == name
		}
		return system && (allowed == c.program.Basename || allowed == called)
	})
}

// available returns an error if the probe found a required part missing. No approval is requested
// for a call that cannot run.
func (t process) available(c *programCall) error {
	if err := t.probed(); err != nil {
		return err
	}
	return t.required(c)
}

// probed returns the reason of the last probe why no sandbox works.
func (t process) probed() error {
	if t.runner == nil {
		return reason.Errorf(reason.SandboxUnavailable, "no sandbox is available on this machine")
	}
	if t.measured.Available {
		return nil
	}
	problem := cmp.Or(t.measured.Problem, "the sandbox was not probed")
	remedy := cmp.Or(t.measured.Remedy, reason.Lookup(reason.SandboxUnavailable).Remedy)
	return reason.Errorf(reason.SandboxUnavailable, "%s", problem).
		WithRemedy("%s palyrad retries automatically; restart it after installing software.", remedy)
}

// required returns an error if the probe did not confirm a required layer.
func (t process) required(c *programCall) error {
	if c.mode == sandbox.CopyOnWrite && !slices.Contains(t.measured.Layers, layerCopyOnWrite) {
		return reason.Errorf(reason.SandboxUnavailable, "this machine cannot give a program a copy of its workspace").
			WithRemedy("Ask for read_only. The operator may set mode = \"direct\" for the workspace, which has weaker guarantees (docs/workspaces.md), and restart palyrad.").
			WithField("layer", layerCopyOnWrite)
	}
	for _, layer := range t.requiredFor(*c) {
		if !slices.Contains(t.measured.Layers, layer) || layer == layerCopyOnWrite && c.mode != sandbox.CopyOnWrite {
			return reason.Errorf(reason.SandboxUnavailable, "the layer %s is required, but not available", layer).
				WithRemedy("See `palyrad doctor` for missing layers, or remove the layer from process_runner.required_layers. Then restart palyrad.").
				WithField("layer", layer)
		}
	}
	return nil
}

// requiredFor returns the layers required for the call. A program that cannot write needs no
// copy.
func (t process) requiredFor(c programCall) []string {
	return slices.DeleteFunc(slices.Clone(t.policy.Required), func(layer string) bool {
		return layer == layerCopyOnWrite && c.mode == sandbox.ReadOnly
	})
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

// facts names a program of the workspace by its path, so that a policy about git does not match a
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

// name sets the program's name in the command line: "./tools/git" for a program of the workspace,
// "git" for the program that the search path finds under that name, and the whole path for all
// others. A different program must not appear under a trusted name.
func (t process) name(c *programCall) {
	c.called = cmp.Or(c.own, c.in.Argv[0])
	if base := path.Base(c.called); c.own == "" && len(c.through) == 0 && base != c.called {
		if found, err := t.resolver.ResolveExecutable(base, t.policy.SearchPath); err == nil && found.Path == c.program.Path {
			c.called = base
		}
	}
}
