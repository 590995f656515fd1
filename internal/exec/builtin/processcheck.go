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
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// layerCopyOnWrite is the layer without which a workspace has no copies.
const layerCopyOnWrite = string(sandbox.CopyOnWrite)

// command is a checked input.
type command struct {
	in processInput
	// line is what the shell is to run; nil for another program.
	line    *line
	root    string
	name    string
	cwd     string
	mode    sandbox.WorkspaceMode
	program sandbox.Program
	// missing says why there is no such program; other faults come first.
	missing error
	// own is "./" and the workspace-relative path of a program that is a file
	// of the workspace, "" for others.
	own string
	// asked is argv as the call gives it, where in.Argv is another: see find. nil for others.
	asked []string
	// through are the files of the workspace that led to a program outside it.
	through []string
	// repository is the directory of git of a workspace that is a worktree beside its repository.
	repository repository
	// called is the program as the command line names it.
	called string
	env    []string
	stdin  []byte
	limits sandbox.Limits
	// protected are the operator's patterns for the workspace.
	protected []string
	// hosts are canonical, sorted and without repeats: in mode strict those that
	// the program may reach, in mode preflight those that were checked.
	hosts []string
	// grant is what the program may reach in mode strict.
	grant egress.Reach
	// moreSecrets is true where the vault has more than the grant does.
	moreSecrets bool
	// caches are names of tools, those of the operator's list.
	caches []string
	// toolchains are those of the moment, and search is where programs are looked
	// for.
	toolchains []sandbox.Toolchain
	search     []string
	// injections are the secrets that the program gets as they are.
	injections []tool.Injection
}

// check judges the input step by step, so that a call with several faults is
// always refused for the same one: switched off, no such platform, bad input,
// program, inline code, workspace, egress, and only then what the machine lacks.
func (t process) check(ctx context.Context, p tool.Proposal) (command, error) {
	c, err := t.parse(p)
	if err != nil {
		return c, err
	}
	for _, step := range []func(*command) error{
		t.known,
		t.resolveCwd,
		t.readLine,
		t.checkHosts,
		func(c *command) error { return t.offerSecrets(ctx, p, c) },
		t.available,
		t.confined,
		func(c *command) error { return t.checkSecrets(ctx, p, c) },
		func(c *command) error {
			if c.missing != nil && ofWorkspace(c.given()[0]) {
				return t.restrict(*c, c.missing)
			}
			return c.missing
		},
		func(c *command) error { return sandbox.CheckRustup(c.program, c.in.Argv, c.toolchains) },
	} {
		if err := step(&c); err != nil {
			return c, err
		}
	}
	t.name(&c)
	return c, nil
}

// Unusable says why no program can run here at present.
func (t process) Unusable() error { return cmp.Or(t.offered(), t.asMeasured().probed()) }

// offered says why the gateway runs no programs whatever the machine gives.
func (t process) offered() error {
	if !t.policy.Enabled {
		return reason.Errorf(reason.SandboxDisabled, "running programs is switched off")
	}
	return supported(runtime.GOOS)
}

// parse reads the input and judges all of it that needs no look at the machine.
func (t process) parse(p tool.Proposal) (command, error) {
	c := command{limits: t.policy.Limits, caches: t.policy.Caches, toolchains: t.policy.Toolchains(), search: slices.Clone(t.policy.SearchPath)}
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
	if err := sandbox.CheckArgv(c.in.Argv); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.in.Env)) {
		c.env = append(c.env, name+"="+c.in.Env[name])
	}
	if err := sandbox.CheckEnv(c.env); err != nil {
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

// supported refuses where there is no backend at all.
func supported(goos string) error {
	if slices.Contains([]string{"linux", "darwin", "windows"}, goos) {
		return nil
	}
	return reason.Errorf(reason.PlatformUnknown, "there is no sandbox for %s", goos)
}

// known judges the program by its name, and one of the machine by what it is.
// A program of the workspace is looked at when the workspace is open.
func (t process) known(c *command) error {
	name := c.in.Argv[0]
	if err := sandbox.Denied(path.Base(name), t.interpreters()); err != nil {
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

// ofWorkspace reports whether argv[0] names a file of the workspace by how it
// is written.
func ofWorkspace(name string) bool {
	_, is := sandbox.Inside(name, "", "")
	return is
}

// resolveCwd finds workspace, working directory and a program of the workspace.
func (t process) resolveCwd(c *command) error {
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
	info, err := root.Stat(sandbox.TrimMount(c.in.Cwd))
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

// restrict wraps an error that depends on which files a workspace has in a
// tool.RestrictedError, whose plan has of the files only the names that the call gives.
func (t process) restrict(c command, err error) error {
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

// named is the call as its arguments give it, without a look at the files, and false for one
// that names what is outside the workspace.
func (t process) named(c command) (command, bool) {
	c.in.Argv, c.asked, c.through = c.given(), nil, nil
	cwd := path.Clean(sandbox.TrimMount(c.in.Cwd))
	inside, own := sandbox.Inside(c.in.Argv[0], c.root, cwd)
	c.root, c.cwd = "", cwd
	if !own {
		t.name(&c)
		return c, filepath.IsLocal(c.cwd)
	}
	c.own, c.program = "./"+inside, sandbox.Program{Executable: tool.Executable{Path: "./" + inside}, Basename: path.Base(inside)}
	t.name(&c)
	return c, filepath.IsLocal(c.cwd) && filepath.IsLocal(inside)
}

// namedFacts are the facts of the call as its arguments give it, nil where those are all that
// the facts say.
func (t process) namedFacts(c command, facts tool.Facts) *tool.Facts {
	if c.own == "" && len(c.through) == 0 && c.cwd == path.Clean(sandbox.TrimMount(c.in.Cwd)) && len(facts.Exec.Starts) == 0 {
		return nil
	}
	only, local := t.named(c)
	if !local {
		return nil
	}
	named := t.facts(only)
	return &named
}

// mostContents bounds the names of a call at which policy is asked who may know of files.
const mostContents = 64

// given is argv as the call gives it.
func (c command) given() []string {
	if c.asked != nil {
		return c.asked
	}
	return c.in.Argv
}

// contents are the files at which a call was looked for: its working directory, the program of
// the workspace or what led to another, and looked, which are the names in its arguments. There are more where it
// returns true.
func (c command) contents(looked []string) (list []tool.FileAccess, more bool) {
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

// judge applies the operator's lists and the guards, in the order of their
// errors: the program first, then inline code.
func (t process) judge(c *command) error {
	if err := c.program.Check(t.interpreters()); err != nil {
		return err
	}
	if !t.allowed(c) {
		return reason.Errorf(reason.ExecutableDenied, "the program %s is not in process_runner.allowed_executables", c.program.Path)
	}
	switch {
	case t.interpreters() == sandbox.InterpretersByPolicy:
		return nil
	case c.program.Facts(c.in.Argv).InlineCode:
		return reason.Errorf(reason.InlineCode, "inline code for %s is refused", c.program.Basename)
	case c.codeFromStdin():
		return reason.Errorf(reason.InlineCode, "%s would take its program from standard input", c.program.Basename)
	}
	return nil
}

// codeFromStdin reports whether the input of the call is the program itself.
func (c command) codeFromStdin() bool {
	return len(c.stdin) > 0 && c.program.ReadsCodeFromStdin(c.in.Argv)
}

// interpreters are those that the operator lets through. In Tier C they are no
// danger that the sandbox does not hold, and policy sees what they are.
func (t process) interpreters() sandbox.Interpreters {
	switch allow := t.policy.AllowInterpreters; {
	case allow == nil && t.tier() == string(sandbox.TierC):
		return sandbox.InterpretersByPolicy
	case allow != nil && *allow:
		return sandbox.InterpretersOfFiles
	}
	return sandbox.NoInterpreters
}

// allowed matches the program with the operator's list. A base name means a
// program of the search path, never a file of the same name in the workspace.
func (t process) allowed(c *command) bool {
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

// available says what the probe found wanting. Nobody is asked about a call that
// cannot run.
func (t process) available(c *command) error {
	if err := t.probed(); err != nil {
		return err
	}
	return t.required(c)
}

// probed says why the last probe found that no sandbox works.
func (t process) probed() error {
	if t.runner == nil {
		return reason.Errorf(reason.SandboxUnavailable, "there is no sandbox on this machine")
	}
	if t.measured.Available {
		return nil
	}
	problem := cmp.Or(t.measured.Problem, "the sandbox was not probed")
	remedy := cmp.Or(t.measured.Remedy, reason.Lookup(reason.SandboxUnavailable).Remedy)
	return reason.Errorf(reason.SandboxUnavailable, "%s", problem).
		WithRemedy("%s palyrad tries again by itself; restart it when something was installed.", remedy)
}

// required refuses when the probe did not prove a layer that has to be there.
func (t process) required(c *command) error {
	if c.mode == sandbox.CopyOnWrite && !slices.Contains(t.measured.Layers, layerCopyOnWrite) {
		return reason.Errorf(reason.SandboxUnavailable, "this machine cannot give a program a copy of its workspace").
			WithRemedy("Ask for read_only. The operator may set mode = \"direct\" for the workspace, which has weaker guarantees (docs/sandbox.md), and restart palyrad.").
			WithField("layer", layerCopyOnWrite)
	}
	for _, layer := range t.requiredFor(*c) {
		if !slices.Contains(t.measured.Layers, layer) || layer == layerCopyOnWrite && c.mode != sandbox.CopyOnWrite {
			return reason.Errorf(reason.SandboxUnavailable, "the layer %s is required, and the program would run without it", layer).
				WithRemedy("See what is missing with `palyrad doctor`, or take the layer out of process_runner.required_layers. Then restart palyrad.").
				WithField("layer", layer)
		}
	}
	return nil
}

// requiredFor are the layers without which the program must not run. One that
// cannot write needs no copy.
func (t process) requiredFor(c command) []string {
	return slices.DeleteFunc(slices.Clone(t.policy.Required), func(layer string) bool {
		return layer == layerCopyOnWrite && c.mode == sandbox.ReadOnly
	})
}

// location is the working directory as a binding names it.
func (c command) location() string { return c.name + ":" + c.cwd }

// operands are the workspace files that the call is bound to.
func (c command) operands() (sandbox.Named, error) {
	if c.line != nil {
		return c.line.operands(c.root, c.cwd)
	}
	return sandbox.Operands(c.root, c.cwd, c.in.Argv, cmp.Or(c.program.Copy, c.program.Basename))
}

// facts names a program of the workspace by its path, so that a policy about
// git is not about a file of that name.
func (c command) facts() *tool.ExecFacts {
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

// longestLine is the longest command line that policy reads, in bytes. It stands
// in the journal with each decision, beside the arguments.
const longestLine = 16 << 10

// name says what a command line calls the program: "./tools/git" for one of the
// workspace, "git" for the one that is found by that name, and the whole path for
// all others, so that another program of a trusted name does not read like it.
func (t process) name(c *command) {
	c.called = cmp.Or(c.own, c.in.Argv[0])
	if base := path.Base(c.called); c.own == "" && len(c.through) == 0 && base != c.called {
		if found, err := t.resolver.ResolveExecutable(base, t.policy.SearchPath); err == nil && found.Path == c.program.Path {
			c.called = base
		}
	}
}
