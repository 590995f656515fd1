package bubblewrap

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/sandbox"
)

// waitForEnd, when set, makes this binary wait for the end of its input.
const waitForEnd = "PALYRA_TEST_WAIT"

// helperProgram is palyra-init as built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "probe") {
		os.Exit(probe(os.Args[1:]))
	}
	if os.Getenv(waitForEnd) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if os.Getenv(childSpec) != "" {
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

// newTestRunner fails, and says what to install, where no sandbox can be
// built: a test that did not run must not look as if it had passed.
func newTestRunner(t testing.TB, without ...string) *Runner {
	t.Helper()
	c := testConfig(t.TempDir())
	c.Without = without
	return newConfiguredRunner(t, c)
}

func newConfiguredRunner(t testing.TB, c Config) *Runner {
	t.Helper()
	r, err := newRunner(c, helperProgram)
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

// testConfig keeps what runs leave behind in dir.
func testConfig(dir string) Config {
	return Config{Enabled: true, LayerDir: privateDir(dir, "layers"), QuarantineDir: privateDir(dir, "quarantine")}
}

func privateDir(dir, name string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		panic(err)
	}
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

// newWorkspace returns a directory as a careful owner has it: 0700.
func newWorkspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "work")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

func writeFile(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
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
		Argv: argv, Executable: p.Executable, WorkspaceRoot: root, Workspace: sandbox.Direct,
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
	if report.Layer != nil {
		t.Cleanup(func() {
			if err := report.Layer.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatalf("Run: %v\nstderr: %s", err, report.Stderr.Head)
	}
	return report
}

func mustSucceed(t testing.TB, r *Runner, s sandbox.Spec) string {
	t.Helper()
	report := mustRun(t, r, s)
	if report.ExitCode == nil || *report.ExitCode != 0 {
		t.Fatalf("ended with %s\nstdout: %s\nstderr: %s", describe(report), report.Stdout.Head, report.Stderr.Head)
	}
	return string(report.Stdout.Head)
}

var copyProbe = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/self/exe") })

// withProbe puts this test binary into the workspace as ./probe.
func withProbe(t testing.TB, root string, args ...string) sandbox.Spec {
	t.Helper()
	program, err := copyProbe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "probe"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	return specOf(t, root, append([]string{"./probe"}, args...)...)
}

func contextWith(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// describe says how a run ended.
func describe(r sandbox.Report) string {
	code := -1
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	return fmt.Sprintf("exit code %d, signal %q, quota %q, timed out %t", code, r.Signal, r.Quota, r.TimedOut)
}
