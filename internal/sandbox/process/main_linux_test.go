package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cgroup"
	"palyra/internal/sandbox/jail"
)

// helperProgram is palyra-init as built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) {
	if os.Getenv(childErrand) != "" {
		os.Exit(childMain())
	}
	if err := buildHelper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func buildHelper() error {
	if path := os.Getenv(helperPath); path != "" {
		program, err := os.ReadFile(path)
		helperProgram = program
		return err
	}
	dir, err := os.MkdirTemp("", "palyra-init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "palyra-init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "palyra/cmd/palyra-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building palyra-init: %w\n%s", err, text)
	}
	helperProgram, err = os.ReadFile(out)
	return err
}

// newTestRunner fails, and says what to do, where the best rung cannot be had:
// a test that did not run must not look as if it had passed.
func newTestRunner(t testing.TB, leaveOut ...string) *Runner {
	t.Helper()
	r, err := newRunner(Config{Enabled: true, LayerDir: layerDir(t), QuarantineDir: layerDir(t), Without: leaveOut}, helperProgram)
	return checked(t, r, err)
}

// grouped reports whether this test's user can make control groups. Where it
// cannot, the lower rung refuses to run anything, and tests leave them out.
func grouped() bool {
	tree := cgroup.Find()
	defer tree.Close()
	return tree.Level() != cgroup.Rlimit
}

// newAloneRunner is what newRunner comes to where there are no user namespaces.
func newAloneRunner(t testing.TB, leaveOut ...string) *Runner {
	t.Helper()
	if !grouped() {
		leaveOut = append(leaveOut, jail.LayerGroup)
	}
	r := &Runner{
		cfg:  Config{Enabled: true, Lowest: sandbox.Landlocked, LayerDir: layerDir(t), QuarantineDir: layerDir(t), Without: leaveOut},
		lack: "this test has none",
	}
	err := r.open(sandbox.Landlocked, helperProgram)
	if err == nil {
		r.problem = r.checkAlone()
	}
	return checked(t, r, err)
}

func checked(t testing.TB, r *Runner, err error) *Runner {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.problem != nil {
		t.Fatalf("%s: %s", r.problem.Message, r.problem.NextStep())
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// layerDir is a directory as the daemon has it.
func layerDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newWorkspace returns a directory as a careful owner has it.
func newWorkspace(t testing.TB) string {
	t.Helper()
	root := filepath.Join(layerDir(t), "work")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

// openWorkspace returns one that others may write to: without mounts, the
// program of a daemon that is root is one of them.
func openWorkspace(t testing.TB) string {
	t.Helper()
	root := newWorkspace(t)
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(root); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func writeFile(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// specOf is a spec for a program found as the product finds it.
func specOf(t testing.TB, root string, argv ...string) sandbox.Spec {
	t.Helper()
	name := argv[0]
	if strings.HasPrefix(name, "./") {
		name = filepath.Join(root, name)
	}
	p, err := sandbox.ResolveExecutable(name, sandbox.SearchPath())
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Spec{
		Argv: argv, Executable: p.Executable, WorkspaceRoot: root, WorkspaceName: "work", Workspace: sandbox.Direct,
		Limits: sandbox.Limits{Wall: 20 * time.Second},
	}
}

// shell is a spec for a script; what the guards say of shells is the
// business of process.run.
func shell(t testing.TB, root, script string) sandbox.Spec {
	t.Helper()
	return specOf(t, root, "bash", "-c", script)
}

func mustRun(t testing.TB, r *Runner, s sandbox.Spec) sandbox.Report {
	t.Helper()
	report, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("Run: %v\nstderr: %s", err, report.Stderr.Head)
	}
	if report.Layer != nil {
		t.Cleanup(func() {
			if err := report.Layer.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return report
}

// succeeds runs a program that must, and returns what it printed.
func succeeds(t testing.TB, r *Runner, s sandbox.Spec) string {
	t.Helper()
	report := mustRun(t, r, s)
	if report.ExitCode == nil || *report.ExitCode != 0 {
		t.Fatalf("ended with %+v\nstdout: %s\nstderr: %s", report.ExitCode, report.Stdout.Head, report.Stderr.Head)
	}
	return string(report.Stdout.Head)
}
