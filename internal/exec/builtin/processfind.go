package builtin

import (
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// repository is what a worktree of git is made of that lies in another workspace: its objects, refs
// and index.
type repository struct {
	dir string
	// workspace and rel are where dir is.
	workspace, rel string
}

// shown is the repository as the sandbox shows it: read-only, at the path by which the worktree names
// it. It is shown to callers who may read it there.
func (r repository) shown(call tool.Call) []sandbox.Toolchain {
	if r.dir == "" || call.MayRead == nil {
		return nil
	}
	for _, name := range []string{"", "HEAD", "config"} {
		if !call.MayRead(readAccess(r.workspace, path.Join(r.rel, name), 0)) {
			return nil
		}
	}
	return []sandbox.Toolchain{{Name: "git repository", Dirs: []string{r.dir}, Git: true}}
}

// mostInterpreters bounds how many interpreters are followed that are scripts themselves. It is
// the kernel's bound (execve(2), "Interpreter scripts").
const mostInterpreters = 4

// renamed is true where the workspace has another name in the sandbox than on the machine.
const renamed = runtime.GOOS == "linux"

// find resolves a program of the workspace, and sees whether one that was named by an absolute
// path is one. Two of them stand for another program, by whose rules they are judged: a link to a
// program outside, and a script whose interpreter has the name that the workspace has on this
// machine, as those of Python's virtual environments. Most sandboxes have no file of that name
// (sandbox.Spec.HostPath), so that the interpreter starts with the script, as execve(2) has it.
func (t process) find(c *command, root *workspace.Root) error {
	for range mostInterpreters + 1 {
		if err := t.locate(c, root); err != nil {
			return err
		}
		within, is := strings.CutPrefix(c.program.Interpreter.Path, strings.TrimSuffix(root.Path(), "/")+"/")
		if c.own == "" || !is || !renamed {
			return t.judgeOwn(c)
		}
		c.through = append(c.through, strings.TrimPrefix(c.own, "./"))
		argv := []string{sandbox.WorkspaceMount + "/" + path.Clean(within)}
		if argument := c.program.Interpreter.Argument; argument != "" {
			argv = append(argv, argument)
		}
		c.start(append(argv, c.in.Argv...)...)
	}
	return reason.Errorf(reason.SpawnFailed, "the interpreters of %q are scripts without end", c.given()[0]).
		WithRemedy("Name a program in the first line of the script.")
}

// start has the call start something else than it asked for.
func (c *command) start(argv ...string) {
	c.asked, c.in.Argv = c.given(), argv
}

// locate finds the file that the program is.
func (t process) locate(c *command, root *workspace.Root) error {
	c.own = ""
	if inside, is := sandbox.Inside(c.in.Argv[0], root.Path(), c.cwd); is {
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

// follow resolves a link that leads to a program outside the workspace. Every failure has the same
// error, so that links tell nothing about the files of the machine.
//
// An interpreter keeps the name by which it is called, by which Python finds its virtual
// environment. Every other program is called by its path: what it does, or what it takes for its
// own files, may depend on its name, and the workspace does not choose that of a program of the machine.
func (t process) follow(c *command, root *workspace.Root, inside string) error {
	whole, err := filepath.EvalSymlinks(filepath.Join(root.Path(), filepath.FromSlash(inside)))
	if err == nil {
		c.program, err = t.resolver.ResolveExecutable(whole, nil)
	}
	if err != nil {
		return reason.Errorf(reason.WorkspaceScope, "%q leads out of the workspace, and not to a program that can start", inside).
			WithRemedy("Look where the link leads with `readlink`, or name the program itself.")
	}
	c.program, c.missing = c.program.From(c.toolchains), nil
	c.through = append(c.through, inside)
	called := path.Base(inside)
	switch {
	case !c.program.IsInterpreter() || sandbox.Family(called) != sandbox.Family(c.program.Basename):
		c.start(append([]string{whole}, c.in.Argv[1:]...)...)
	case filepath.IsAbs(c.in.Argv[0]) && renamed:
		c.start(append([]string{sandbox.WorkspaceMount + "/" + inside}, c.in.Argv[1:]...)...)
	}
	return nil
}

// judgeOwn judges a program that was found in the workspace or through it. The others are judged
// already.
func (t process) judgeOwn(c *command) error {
	if c.own == "" && len(c.through) == 0 {
		return nil
	}
	return t.judge(c)
}

// throughNotes say what the program that was asked for stands for.
func (c command) throughNotes() []string {
	if len(c.through) == 0 {
		return nil
	}
	return []string{c.given()[0] + " stands for " + c.program.Path + ", by whose rules it is judged (through " + strings.Join(slices.Compact(c.through), ", ") + ")."}
}
