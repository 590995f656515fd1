package builtin

import (
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
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
func (t process) find(c *programCall, root *workspace.Root) error {
	for range mostInterpreters + 1 {
		if err := t.locate(c, root); err != nil {
			return err
		}
		within, is := strings.CutPrefix(c.program.Interpreter.Path, strings.TrimSuffix(root.Path(), "/")+"/")
		if c.own == "" || !is || !renamed {
			return t.judgeOwn(c)
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
func (t process) locate(c *programCall, root *workspace.Root) error {
	c.own = ""
	if inside, is := command.Inside(c.in.Argv[0], root.Path(), c.cwd); is {
		info, err := root.Stat(inside)
		if reason.Of(err) == reason.WorkspaceScope && filepath.IsLocal(inside) {
			return t.follow(c, root, inside)
		}
		if err != nil {
			return err
		}
		c.program, c.missing = t.resolver.ResolveExecutable(filepath.Join(root.Path(), filepath.FromSlash(info.Path)), nil)
	}
	if rest, own := strings.CutPrefix(c.program.Path, strings.TrimSuffix(root.Path(), "/")+"/"); own {
		c.own = "./" + rest
		c.program = t.resolver.CopyOf(c.program, c.search)
	}
	return nil
}

// follow resolves a link to a program outside the workspace. All failures return the same error,
// so that links disclose nothing about the files of the machine.
//
// An interpreter keeps the name by which it is called, because Python finds its virtual
// environment by it. Every other program is called by its path: its behavior may depend on its
// name, and the workspace must not choose the name of a program of the machine.
func (t process) follow(c *programCall, root *workspace.Root, inside string) error {
	whole, err := filepath.EvalSymlinks(filepath.Join(root.Path(), filepath.FromSlash(inside)))
	if err == nil {
		c.program, err = t.resolver.ResolveExecutable(whole, nil)
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
func (t process) judgeOwn(c *programCall) error {
	if c.own == "" && len(c.through) == 0 {
		return nil
	}
	return t.judge(c)
}

// throughNotes explains which program runs in place of the requested one.
func (c programCall) throughNotes() []string {
	if len(c.through) == 0 {
		return nil
	}
	return []string{c.given()[0] + " runs " + c.program.Path + ", whose rules apply (through " + strings.Join(slices.Compact(c.through), ", ") + ")."}
}
