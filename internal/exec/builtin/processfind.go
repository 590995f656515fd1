package builtin

import (
	"cmp"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// repository is the part of a git worktree that is in another workspace: its objects, refs and
// index.
type repository struct {
	dir string
	// workspace and rel are the location of dir.
	workspace, rel string
}

// mounts mounts the repository read-only at the path by which the worktree names it. It is mounted
// only for callers that may read it there.
func (r repository) mounts(call tool.Call) []command.Toolchain {
	if r.dir == "" || call.MayRead == nil {
		return nil
	}
	for _, name := range []string{"", "HEAD", "config"} {
		if !call.MayRead(readAccess(r.workspace, path.Join(r.rel, name), 0)) {
			return nil
		}
	}
	return []command.Toolchain{{Name: "git repository", Dirs: []string{r.dir}, Git: true}}
}

// programFinder finds the programs of calls and applies the operator's lists to them.
type programFinder struct {
	resolver *command.Resolver
	// search, toolchains, allowed and interpreters are settings of ProcessPolicy.
	search       []string
	toolchains   func() []command.Toolchain
	allowed      []string
	interpreters *bool
}

func newProgramFinder(policy ProcessPolicy) programFinder {
	f := programFinder{new(command.Resolver), policy.SearchPath, policy.Toolchains, policy.AllowedExecutables, policy.AllowInterpreters}
	if len(f.search) == 0 {
		f.search = command.SearchPath()
	}
	if f.toolchains == nil {
		f.toolchains = func() []command.Toolchain { return nil }
	}
	return f
}

// path returns the current toolchains and the search path with their directories.
func (f programFinder) path() (toolchains []command.Toolchain, search []string) {
	toolchains, search = f.toolchains(), slices.Clone(f.search)
	for _, chain := range toolchains {
		search = append(search, chain.Bins...)
	}
	return toolchains, search
}

// known checks the program by its name, and a program of the machine by its file. A program of
// the workspace is checked when the workspace is open.
func (f programFinder) known(c *programCall) error {
	name := c.in.Argv[0]
	if err := command.Denied(path.Base(name), f.rule(c)); err != nil {
		return err
	}
	if ofWorkspace(name) {
		return nil
	}
	c.program, c.missing = f.resolver.ResolveExecutable(name, c.search)
	c.program = c.program.From(c.toolchains)
	if c.missing != nil {
		if reason.Of(c.missing) == reason.InvalidInput {
			return c.missing
		}
		return nil
	}
	return f.judge(c)
}

// ofWorkspace reports whether argv[0] is written as a file of the workspace.
func ofWorkspace(name string) bool {
	_, is := command.Inside(name, "", "")
	return is
}

// mostInterpreters limits the chain of interpreters that are scripts themselves. It is the
// kernel's limit (execve(2), "Interpreter scripts").
const mostInterpreters = 4

// renamed reports whether the workspace has another path in the sandbox than on the machine.
const renamed = runtime.GOOS == "linux"

// find resolves a program of the workspace, including one with an absolute path. Two kinds of
// files represent another program, whose rules then apply. One is a link to a program outside.
// The other is a script that names its interpreter by the workspace's path on this machine, as
// in Python virtual environments. Most sandboxes have no file at that path
// (sandbox.Spec.HostPath), so the interpreter is started with the script as its argument, as
// execve(2) does.
func (f programFinder) find(c *programCall, root *workspace.Root) error {
	for range mostInterpreters + 1 {
		if err := f.locate(c, root); err != nil {
			return err
		}
		within, is := strings.CutPrefix(c.program.Interpreter.Path, strings.TrimSuffix(root.Path(), "/")+"/")
		if c.own == "" || !is || !renamed {
			return f.judgeOwn(c)
		}
		c.through = append(c.through, strings.TrimPrefix(c.own, "./"))
		argv := []string{command.WorkspaceMount + "/" + path.Clean(within)}
		if argument := c.program.Interpreter.Argument; argument != "" {
			argv = append(argv, argument)
		}
		c.start(append(argv, c.in.Argv...)...)
	}
	return reason.Errorf(reason.SpawnFailed, "the chain of interpreters of %q is too long", c.given()[0]).
		WithRemedy("Name a program in the first line of the script.")
}

// start replaces the command line of the call.
func (c *programCall) start(argv ...string) {
	c.asked, c.in.Argv = c.given(), argv
}

// locate finds the program file.
func (f programFinder) locate(c *programCall, root *workspace.Root) error {
	c.own = ""
	if inside, is := command.Inside(c.in.Argv[0], root.Path(), c.cwd); is {
		info, err := root.Stat(inside)
		if reason.Of(err) == reason.WorkspaceScope && filepath.IsLocal(inside) {
			return f.follow(c, root, inside)
		}
		if err != nil {
			return err
		}
		c.program, c.missing = f.resolver.ResolveExecutable(filepath.Join(root.Path(), filepath.FromSlash(info.Path)), nil)
	}
	if rest, own := strings.CutPrefix(c.program.Path, strings.TrimSuffix(root.Path(), "/")+"/"); own {
		c.own = "./" + rest
		c.program = f.resolver.CopyOf(c.program, c.search)
	}
	return nil
}

// follow resolves a link to a program outside the workspace. All failures return the same error,
// so that links disclose nothing about the files of the machine.
//
// An interpreter keeps the name by which it is called, because Python finds its virtual
// environment by it. Every other program is called by its path: its behavior may depend on its
// name, and the workspace must not choose the name of a program of the machine.
func (f programFinder) follow(c *programCall, root *workspace.Root, inside string) error {
	whole, err := filepath.EvalSymlinks(filepath.Join(root.Path(), filepath.FromSlash(inside)))
	if err == nil {
		c.program, err = f.resolver.ResolveExecutable(whole, nil)
	}
	if err != nil {
		return reason.Errorf(reason.WorkspaceScope, "%q is a link out of the workspace that does not lead to a program", inside).
			WithRemedy("Check the link with `readlink`, or name the program itself.")
	}
	c.program, c.missing = c.program.From(c.toolchains), nil
	c.through = append(c.through, inside)
	called := path.Base(inside)
	switch {
	case !c.program.IsInterpreter() || command.Family(called) != command.Family(c.program.Basename):
		c.start(append([]string{whole}, c.in.Argv[1:]...)...)
	case filepath.IsAbs(c.in.Argv[0]) && renamed:
		c.start(append([]string{command.WorkspaceMount + "/" + inside}, c.in.Argv[1:]...)...)
	}
	return nil
}

// judgeOwn checks a program that was found in the workspace or through it. Other programs were
// checked earlier.
func (f programFinder) judgeOwn(c *programCall) error {
	if c.own == "" && len(c.through) == 0 {
		return nil
	}
	return f.judge(c)
}

// judge applies the operator's lists and the guards, in the order of their errors: first the
// program, then inline code.
func (f programFinder) judge(c *programCall) error {
	if err := c.program.Check(f.rule(c)); err != nil {
		return err
	}
	if !f.allows(c) {
		return reason.Errorf(reason.ExecutableDenied, "the program %s is not in process_runner.allowed_executables", c.program.Path)
	}
	switch {
	case f.rule(c) == command.InterpretersByPolicy:
		return nil
	case c.program.Facts(c.in.Argv).InlineCode:
		return reason.Errorf(reason.InlineCode, "inline code for %s is refused", c.program.Basename)
	case c.codeFromStdin():
		return reason.Errorf(reason.InlineCode, "%s would read its program from standard input", c.program.Basename)
	}
	return nil
}

// rule returns the rule for interpreters. In Tier C the sandbox contains them, and policy
// receives them as facts.
func (f programFinder) rule(c *programCall) command.Interpreters {
	switch allow := f.interpreters; {
	case allow == nil && c.machine.tier() == string(sandbox.TierC):
		return command.InterpretersByPolicy
	case allow != nil && *allow:
		return command.InterpretersOfFiles
	}
	return command.NoInterpreters
}

// allows matches the program with the operator's list. A base name means a program of the search
// path, never a file of the same name in the workspace.
func (f programFinder) allows(c *programCall) bool {
	if len(f.allowed) == 0 {
		return true
	}
	name, called := c.in.Argv[0], c.program.Called
	if len(c.through) > 0 {
		name, called = c.program.Path, c.program.Basename
	}
	system := c.own == "" && (!strings.Contains(name, "/") || slices.Contains(c.search, path.Dir(name)))
	return slices.ContainsFunc(f.allowed, func(allowed string) bool {
		if filepath.IsAbs(allowed) {
			return allowed == c.program.Path || system && allowed == name
		}
		return system && (allowed == c.program.Basename || allowed == called)
	})
}

// name sets the program's name in the command line: "./tools/git" for a program of the workspace,
// "git" for the program that the search path finds under that name, and the whole path for all
// others. A different program must not appear under a trusted name.
func (f programFinder) name(c *programCall) {
	c.called = cmp.Or(c.own, c.in.Argv[0])
	if base := path.Base(c.called); c.own == "" && len(c.through) == 0 && base != c.called {
		if found, err := f.resolver.ResolveExecutable(base, f.search); err == nil && found.Path == c.program.Path {
			c.called = base
		}
	}
}

// named returns the call as its arguments give it, without file access. It returns false for a
// call that names files outside the workspace.
func (f programFinder) named(c programCall) (programCall, bool) {
	c.in.Argv, c.asked, c.through = c.given(), nil, nil
	cwd := path.Clean(command.TrimMount(c.in.Cwd))
	inside, own := command.Inside(c.in.Argv[0], c.root, cwd)
	c.root, c.cwd = "", cwd
	if !own {
		f.name(&c)
		return c, filepath.IsLocal(c.cwd)
	}
	c.own, c.program = "./"+inside, command.Program{Executable: tool.Executable{Path: "./" + inside}, Basename: path.Base(inside)}
	f.name(&c)
	return c, filepath.IsLocal(c.cwd) && filepath.IsLocal(inside)
}

// throughNotes explains which program runs in place of the requested one.
func (c programCall) throughNotes() []string {
	if len(c.through) == 0 {
		return nil
	}
	return []string{c.given()[0] + " runs " + c.program.Path + ", whose rules apply (through " + strings.Join(slices.Compact(c.through), ", ") + ")."}
}
