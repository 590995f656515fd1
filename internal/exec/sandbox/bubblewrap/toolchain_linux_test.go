package bubblewrap

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

func TestToolchains(t *testing.T) {
	t.Parallel()
	jailtest.Toolchains(t, newTestRunner(t), jailtest.Workspace)
}

// TestToolchainsInCopies covers each kind of workspace mount together with the mounts of
// toolchains.
func TestToolchainsInCopies(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	_, chain := jailtest.Home(t)
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.CopyOnWrite, sandbox.Direct} {
		s := jailtest.Shell(t, jailtest.Workspace(t), "greet && ls -d /workspace")
		s.Workspace, s.Toolchains = mode, []command.Toolchain{chain}
		if got := jailtest.Output(t, r, s); got != "hello\n/workspace\n" {
			t.Errorf("%s: %q", mode, got)
		}
		// The program itself is in the toolchain, and is the file that was hashed.
		s.Argv, s.Executable = []string{"greet"}, must.Get(command.ResolveExecutable("greet", command.PathWith(s.Toolchains)))(t).Executable
		if got := jailtest.Output(t, r, s); got != "hello\n" {
			t.Errorf("%s, by its name: %q", mode, got)
		}
		if mode == sandbox.CopyOnWrite {
			if got := asUser(t, s.WorkspaceRoot, s); string(got.Report.Stdout.Head) != "hello\n" {
				t.Errorf("by its name as an ordinary user: %q %s", got.Report.Stdout.Head, got.Error)
			}
		}
	}
}

// TestToolchainsDoNotOverlap: a toolchain cannot bypass the copy of a workspace.
func TestToolchainsDoNotOverlap(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	root := jailtest.Workspace(t)
	sub := filepath.Join(root, "tools")
	must.Do(t, os.Mkdir(sub, 0o755))
	for dir, refused := range map[string]bool{root: true, sub: true, filepath.Dir(root): true, "/": true, root + "/../x": true, jailtest.Dir(t): false} {
		s := jailtest.Spec(t, root, "true")
		s.Toolchains = []command.Toolchain{{Name: "odd", Bins: []string{dir}, Dirs: []string{dir}}}
		report, err := r.Run(t.Context(), s)
		if got := reason.Of(err) == reason.InvalidInput; got != refused || !refused && err != nil {
			t.Errorf("%s: %v %+v", dir, err, report.ExitCode)
		}
	}
}
