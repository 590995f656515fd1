package upstream

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// mostInterpreters bounds how many interpreters are followed that are scripts themselves, as
// the kernel does.
const mostInterpreters = 4

// inWorkspace finds the program of a server below its workspace, by the names that
// process.run takes: /workspace/x, ./x, or the path on this machine. A link may lead to a
// program outside, and a script to an interpreter of the workspace, such as that of a virtual
// environment of Python: no file has its name in the sandbox, so that the interpreter is
// started with the script.
func (m *Manager) inWorkspace(l *launch, root *workspace.Root) error {
	for range mostInterpreters + 1 {
		inside, is := sandbox.Inside(l.argv[0], root.Path(), "")
		if !is {
			return reason.Errorf(reason.SpawnFailed, "the interpreter of the program %q of the upstream server %s is not below its workspace", l.argv[0], l.server.Name)
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
		program, err := m.resolver.ResolveExecutable(whole, nil)
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
			l.argv = append([]string{sandbox.WorkspaceMount + "/" + inside}, l.argv[1:]...)
			return nil
		case !own:
			return nil
		}
		argv := []string{sandbox.WorkspaceMount + "/" + path.Clean(within)}
		if argument := program.Interpreter.Argument; argument != "" {
			argv = append(argv, argument)
		}
		l.argv = slices.Concat(argv, []string{sandbox.WorkspaceMount + "/" + inside}, l.argv[1:])
	}
	return reason.Errorf(reason.SpawnFailed, "the interpreters of the program of the upstream server %s are scripts without end", l.server.Name).
		WithRemedy("Name a program in the first line of the script.")
}
