package jailtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// Dir returns an empty directory whose path holds no link.
func Dir(t testing.TB) string {
	t.Helper()
	return must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
}

// Workspace returns a directory as a careful owner has it: 0700.
func Workspace(t testing.TB) string {
	t.Helper()
	root := filepath.Join(Dir(t), "work")
	must.Do(t, os.Mkdir(root, 0o700))
	return root
}

// OpenPath lets others pass the temporary directories above a path.
func OpenPath(t testing.TB, name string) {
	t.Helper()
	for dir := filepath.Dir(name); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // others are to pass
			t.Fatal(err)
		}
	}
}

// WriteFile writes a file of exactly that mode.
func WriteFile(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(content), mode))
	must.Do(t, os.Chmod(name, mode))
}

// Spec is a spec for a program found as the product finds it.
func Spec(t testing.TB, root string, argv ...string) sandbox.Spec {
	t.Helper()
	name := argv[0]
	if strings.HasPrefix(name, "./") {
		name = filepath.Join(root, name)
	}
	p := must.Get(sandbox.ResolveExecutable(name, sandbox.SearchPath()))(t)
	return sandbox.Spec{
		Argv: argv, Executable: p.Executable, WorkspaceRoot: root, WorkspaceName: "work", Workspace: sandbox.Direct,
		Limits: sandbox.Limits{Wall: 2 * time.Minute}, // only a guard, also on a slow machine
	}
}

// Shell is a spec for a shell script. The guards, which refuse shells, belong to
// process.run and are not asked here.
func Shell(t testing.TB, root, script string) sandbox.Spec {
	t.Helper()
	return Spec(t, root, "bash", "-c", script)
}

// Run runs a program that may end as it likes.
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

// Output runs a program that must succeed, and returns what it printed.
func Output(t testing.TB, r sandbox.Runner, s sandbox.Spec) string {
	t.Helper()
	report := Run(t, r, s)
	if report.ExitCode == nil || *report.ExitCode != 0 {
		t.Fatalf("ended with %s\nstdout: %s\nstderr: %s", Ending(report), report.Stdout.Head, report.Stderr.Head)
	}
	return string(report.Stdout.Head)
}

// Ending says how a run ended.
func Ending(r sandbox.Report) string {
	code := -1
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	return fmt.Sprintf("exit code %d, signal %q, quota %q, timed out %t", code, r.Signal, r.Quota, r.TimedOut)
}
