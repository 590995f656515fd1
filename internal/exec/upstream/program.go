package upstream

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/workspace"
)

// mostInterpreters limits the chain of interpreters that are scripts themselves, like the kernel
// does.
const mostInterpreters = 4

// inWorkspace finds the program of a server inside its workspace, by the names that process.run
// accepts: /workspace/x, ./x, or the path on this machine. A link may lead to a program outside.
// A script may have an interpreter in the workspace, such as one of a Python virtual environment.
// Host paths do not exist in the sandbox, so the interpreter is started with the script as its
// argument.
func (ln *launcher) inWorkspace(l *launch, root *workspace.Root) error {
	for range mostInterpreters + 1 {
		inside, is := command.Inside(l.argv[0], root.Path(), "")
		if !is {
			return reason.Errorf(reason.SpawnFailed, "the interpreter of the program %q of the upstream server %s is not inside its workspace", l.argv[0], l.server.Name)
		}
		whole := filepath.Join(root.Path(), filepath.FromSlash(inside))
		info, err := root.Stat(inside)
		linked := reason.Of(err) == reason.WorkspaceScope && filepath.IsLocal(inside)
		switch {
		case linked:
			if whole, err = filepath.EvalSymlinks(whole); err != nil {
				return reason.Errorf(reason.SpawnFailed, "the program %q of the upstream server %s is a link to a file that does not exist", l.argv[0], l.server.Name)
			}
		case err != nil:
			return err
		default:
			whole = filepath.Join(root.Path(), filepath.FromSlash(info.Path))
		}
		program, err := ln.resolver.ResolveExecutable(whole, nil)
		if err != nil {
			return err
		}
		l.program = program.Executable
		within, own := strings.CutPrefix(program.Interpreter.Path, strings.TrimSuffix(root.Path(), "/")+"/")
		switch {
		case linked && !program.IsInterpreter():
			l.argv = append([]string{whole}, l.argv[1:]...)
			return nil
		case linked:
			l.argv = append([]string{command.WorkspaceMount + "/" + inside}, l.argv[1:]...)
			return nil
		case !own:
			return nil
		}
		argv := []string{command.WorkspaceMount + "/" + path.Clean(within)}
		if argument := program.Interpreter.Argument; argument != "" {
			argv = append(argv, argument)
		}
		l.argv = slices.Concat(argv, []string{command.WorkspaceMount + "/" + inside}, l.argv[1:])
	}
	return reason.Errorf(reason.SpawnFailed, "the chain of interpreters of the program of the upstream server %s is too long", l.server.Name).
		WithRemedy("Name a program in the first line of the script.")
}
