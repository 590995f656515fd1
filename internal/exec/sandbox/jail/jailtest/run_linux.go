package jailtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// Dir returns an empty directory whose path contains no link.
func Dir(t testing.TB) string {
	t.Helper()
	return must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
}

// Workspace returns a directory of mode 0700, like a private workspace.
func Workspace(t testing.TB) string {
	t.Helper()
	root := filepath.Join(Dir(t), "work")
	must.Do(t, os.Mkdir(root, 0o700))
	return root
}

// OpenPath permits other users to enter the temporary directories above a path.
func OpenPath(t testing.TB, name string) {
	t.Helper()
	for dir := filepath.Dir(name); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // others are to pass
			t.Fatal(err)
		}
	}
}

// WriteFile writes a file with exactly the given mode, regardless of the umask.
func WriteFile(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(content), mode))
	must.Do(t, os.Chmod(name, mode))
}

// Spec returns a spec for a program that is resolved like in production.
func Spec(t testing.TB, root string, argv ...string) sandbox.Spec {
	t.Helper()
	name := argv[0]
	if strings.HasPrefix(name, "./") {
		name = filepath.Join(root, name)
	}
	p := must.Get(command.ResolveExecutable(name, command.SearchPath()))(t)
	return sandbox.Spec{
		Argv: argv, Executable: p.Executable, WorkspaceRoot: root, WorkspaceName: "work", Workspace: sandbox.Direct,
		Limits: sandbox.Limits{Wall: 2 * time.Minute}, // only a safeguard, sufficient for a slow machine
	}
}

// Shell returns a spec for a shell script. The guards of process.run, which refuse shells, do not
// apply here.
func Shell(t testing.TB, root, script string) sandbox.Spec {
	t.Helper()
	return Spec(t, root, "bash", "-c", script)
}

// Run runs a program, and accepts any outcome of it.
func Run(t testing.TB, r sandbox.Runner, s sandbox.Spec) sandbox.Report {
	t.Helper()
	report, err := r.Run(t.Context(), s)
	if report.Layer != nil {
		t.Cleanup(func() { must.Check(t, report.Layer.Close()) })
	}
	if err != nil {
		t.Fatalf("Run: %v\nstderr: %s", err, report.Stderr.Head)
	}
	return report
}

// Output runs a program that must succeed, and returns its output.
func Output(t testing.TB, r sandbox.Runner, s sandbox.Spec) string {
	t.Helper()
	report := Run(t, r, s)
	if report.ExitCode == nil || *report.ExitCode != 0 {
		t.Fatalf("ended with %s\nstdout: %s\nstderr: %s", Ending(report), report.Stdout.Head, report.Stderr.Head)
	}
	return string(report.Stdout.Head)
}

// Ending describes how a run ended.
func Ending(r sandbox.Report) string {
	code := -1
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	return fmt.Sprintf("exit code %d, signal %q, quota %q, timed out %t", code, r.Signal, r.Quota, r.TimedOut)
}
