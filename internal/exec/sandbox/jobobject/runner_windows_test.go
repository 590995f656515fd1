package jobobject

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// The tests run this binary as their program, which a word after "child" selects.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(act(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// act is the behavior of the program under test.
func act(args []string) int {
	switch args[0] {
	case "show":
		dir, _ := os.Getwd()
		fmt.Println(dir)
		for _, arg := range args[1:] {
			fmt.Printf("%q\n", arg)
		}
		for _, pair := range os.Environ() {
			fmt.Println(pair)
		}
		_, _ = io.Copy(os.Stderr, os.Stdin)
		return 3
	case "sleep":
		awaitKill()
	case "spin":
		for { //nolint:staticcheck // it is to use up the processor
		}
	case "tree":
		start(args[1:]...)
		awaitKill()
	case "orphan":
		start("beat", args[1])
		beats := must.Wait(func() bool {
			info, err := os.Stat(args[1])
			return err == nil && info.Size() > 0
		})
		if !beats {
			return 1
		}
	case "beat":
		f, err := os.Create(args[1])
		if err != nil {
			return 1
		}
		for range time.Tick(10 * time.Millisecond) {
			_, _ = f.WriteString("x")
		}
	case "many":
		for range 8 {
			start("sleep")
		}
		awaitKill()
	case "memory":
		var kept [][]byte
		for range 64 {
			kept = append(kept, bytes.Repeat([]byte{1}, 8<<20))
		}
		fmt.Println(len(kept))
		awaitKill()
	case "flood":
		for {
			fmt.Println(strings.Repeat("x", 4096))
		}
	case "write":
		if err := os.WriteFile(args[1], []byte("x"), 0o600); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// awaitKill blocks until an interrupt, which is never sent: the process lasts until it is killed.
func awaitKill() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	<-signals
}

// start starts this program again, without its file descriptors.
func start(args ...string) {
	self, _ := os.Executable()
	cmd := exec.Command(self, append([]string{"child"}, args...)...)
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
}

// tempDir replaces t.TempDir on file systems that do not support its way of deleting.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jobobject-"))(t)
	t.Cleanup(func() { must.Check(t, removeTree(dir)) })
	return dir
}

func newTestRunner(t *testing.T) *Runner {
	t.Helper()
	r := must.Get(New(Config{Enabled: true, RunDir: tempDir(t)}))(t)
	r.tolerant = wine()
	return r
}

// wine reports whether the system is Wine, which accepts every limit and returns none. There,
// the tests verify that programs are refused for that reason, and then test the remaining
// effects.
func wine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

func spec(t *testing.T, args ...string) sandbox.Spec {
	t.Helper()
	self := must.Get(os.Executable())(t)
	program := must.Get(command.ResolveExecutable(self, nil))(t)
	dir := must.Get(filepath.EvalSymlinks(tempDir(t)))(t)
	return sandbox.Spec{
		Argv: append([]string{"self", "child"}, args...), Executable: program.Executable,
		WorkspaceRoot: dir, Workspace: sandbox.Direct, Egress: egress.Unrestricted,
	}
}

// do runs s and verifies that no resource of the run is left.
func do(t *testing.T, s sandbox.Spec) (sandbox.Report, error) {
	t.Helper()
	return with(t, newTestRunner(t), s)
}

// strictly is do with the production behavior: an unproved layer prevents the run.
func strictly(t *testing.T, s sandbox.Spec) (sandbox.Report, error) {
	t.Helper()
	r := newTestRunner(t)
	r.tolerant = false
	return with(t, r, s)
}

func with(t *testing.T, r *Runner, s sandbox.Spec) (sandbox.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*must.Patience)
	defer cancel()
	report, err := r.Run(ctx, s)
	left, readErr := os.ReadDir(r.cfg.RunDir)
	if readErr != nil || len(left) > 0 {
		t.Errorf("the directory of runs holds %v (%v)", left, readErr)
	}
	return report, err
}

// Not parallel: it sets a variable of the process.
func TestRun(t *testing.T) {
	odd := []string{"", "a b", `"`, `\`, `a\"b`, `x\\`, "%PATH%", "^&|<>", "ä€😀", "tab\there"}
	t.Setenv("SECRET", "of the daemon")
	s := spec(t, append([]string{"show"}, odd...)...)
	s.Stdin, s.Env = []byte("given\n"), []string{"GREETING=hello"}
	r := must.Get(do(t, s))(t)
	if r.ExitCode == nil || *r.ExitCode != 3 || string(r.Stderr.Head) != "given\n" {
		t.Errorf("the run came to %v, %q", r.ExitCode, r.Stderr.Head)
	}
	lines := strings.Split(strings.TrimSpace(string(r.Stdout.Head)), "\n")
	if lines[0] != s.WorkspaceRoot {
		t.Errorf("it ran in %s, not %s", lines[0], s.WorkspaceRoot)
	}
	for i, arg := range odd {
		if lines[1+i] != fmt.Sprintf("%q", arg) {
			t.Errorf("argument %q arrived as %s", arg, lines[1+i])
		}
	}
	env := lines[1+len(odd):]
	if !slices.Contains(env, "GREETING=hello") || slices.ContainsFunc(env, func(p string) bool { return strings.HasPrefix(p, "SECRET=") }) {
		t.Errorf("the environment is %q", env)
	}
	for _, layer := range essential(false) {
		if !slices.Contains(r.Applied, layer) && !wine() {
			t.Errorf("%s was not proved", layer)
		}
	}
	t.Logf("proved: %v; downgrades: %q; used: %+v", r.Applied, r.Downgrades, r.Usage)
	if r.Tier != sandbox.TierB || r.Rung != sandbox.JobObject || r.Isolation.LimitsBy != "job_object" || r.Usage.Processes == 0 {
		t.Errorf("the report is %+v", r)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		set   func(*sandbox.Spec)
		quota sandbox.Quota
		timed bool
		// kernel is true for limits that only the Windows kernel enforces.
		kernel bool
	}{
		"wall":      {[]string{"tree", "tree", "sleep"}, func(s *sandbox.Spec) { s.Limits.Wall = time.Second }, "", true, false},
		"output":    {[]string{"flood"}, func(s *sandbox.Spec) { s.Limits.Output = 1000 }, sandbox.QuotaOutput, false, false},
		"cpu":       {[]string{"spin"}, func(s *sandbox.Spec) { s.Limits.CPU = time.Second }, sandbox.QuotaCPU, false, true},
		"processes": {[]string{"many"}, func(s *sandbox.Spec) { s.Limits.Processes = 4 }, sandbox.QuotaProcesses, false, true},
		"memory":    {[]string{"memory"}, func(s *sandbox.Spec) { s.Limits.Memory = 128 << 20 }, sandbox.QuotaMemory, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.kernel && wine() {
				t.Skip("Wine takes this limit and does not enforce it")
			}
			s := spec(t, c.args...)
			s.Limits.Wall = must.Patience
			c.set(&s)
			r, err := do(t, s)
			if err != nil || r.Quota != c.quota || r.TimedOut != c.timed || r.ExitCode != nil {
				t.Errorf("%v: quota %q, timed out %t, exit code %v, stdout %.200q, stderr %.200q", err, r.Quota, r.TimedOut, r.ExitCode, r.Stdout.Head, r.Stderr.Head)
			}
			// A program that its limit does not end lasts until Wall.
			if r.Usage.Wall > must.Patience*4/5 {
				t.Errorf("it took %s", r.Usage.Wall)
			}
		})
	}
}

// The program's remaining processes end with it.
func TestStraggler(t *testing.T) {
	t.Parallel()
	s := spec(t)
	beats := filepath.Join(s.WorkspaceRoot, "beats")
	s.Argv = append(s.Argv, "orphan", beats)
	r, err := do(t, s)
	if err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Fatalf("%v: %v", err, r.ExitCode)
	}
	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size(beats)
	// The control sends its beats outside of a job, even on a busy machine.
	own := filepath.Join(tempDir(t), "beats")
	control := exec.Command(must.Get(os.Executable())(t), "child", "beat", own)
	must.Do(t, control.Start())
	must.Eventually(t, "the control beats 20 times", func() (bool, string) { return size(own) >= 20, fmt.Sprint(size(own)) })
	must.Do(t, control.Process.Kill())
	_ = control.Wait()
	if after := size(beats); after != before || before == 0 {
		t.Errorf("a process of the run is still there: %d bytes, then %d", before, after)
	}
}

// A program does not run if the system does not report the limits in force.
func TestUnprovedLayersRefuse(t *testing.T) {
	t.Parallel()
	s := spec(t)
	target := filepath.Join(s.WorkspaceRoot, "made")
	s.Argv = append(s.Argv, "write", target)
	_, err := strictly(t, s)
	_, statErr := os.Stat(target)
	if refused := reason.Of(err) == reason.SandboxUnavailable; refused != wine() || (statErr == nil) == refused {
		t.Errorf("%v; the program ran: %t", err, statErr == nil)
	}
}

// A program with a read-only workspace runs only with low integrity.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := spec(t)
	target := filepath.Join(s.WorkspaceRoot, "made")
	s.Argv = append(s.Argv, "write", target)
	s.Workspace = sandbox.ReadOnly
	r, err := strictly(t, s)
	if _, statErr := os.Stat(target); statErr == nil {
		t.Error("the workspace was written to")
	}
	if err == nil && (!slices.Contains(r.Applied, layerIntegrity) || r.ExitCode == nil || *r.ExitCode != 1) {
		t.Errorf("the run came to %v with %v", r.ExitCode, r.Applied)
	}
	if err != nil {
		t.Logf("refused: %v", err)
		if reason.Of(err) != reason.SandboxUnavailable {
			t.Errorf("refused with %s", reason.Of(err))
		}
	}
	s.Workspace = sandbox.Direct
	if r, err := do(t, s); err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("a direct workspace: %v, %v", err, r.ExitCode)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	but := func(set func(*sandbox.Spec)) sandbox.Spec {
		s := spec(t, "sleep")
		set(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec sandbox.Spec
		want reason.Code
	}{
		"strict egress": {but(func(s *sandbox.Spec) { s.Egress = egress.Strict }), reason.EgressDenied},
		"copy on write": {but(func(s *sandbox.Spec) { s.Workspace = sandbox.CopyOnWrite }), reason.SandboxUnavailable},
		"cwd outside":   {but(func(s *sandbox.Spec) { s.Cwd = ".." }), reason.WorkspaceScope},
		"cwd missing":   {but(func(s *sandbox.Spec) { s.Cwd = "missing" }), reason.WorkspaceScope},
		"other bytes":   {but(func(s *sandbox.Spec) { s.Executable.SHA256 = "sha256:00" }), reason.BindingMismatch},
		"required":      {but(func(s *sandbox.Spec) { s.Required = []string{layerNetwork} }), reason.SandboxUnavailable},
	} {
		_, err := strictly(t, c.spec)
		var refused *reason.Error
		if !errors.As(err, &refused) || refused.Code != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	s := spec(t, "flood")
	ctx, cancel := context.WithCancel(t.Context())
	s.Output = func(string, []byte) { cancel() }
	if _, err := newTestRunner(t).Run(ctx, s); reason.Of(err) != reason.Cancelled {
		t.Errorf("%v", err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	s := r.Probe(t.Context())
	t.Logf("the probe says %+v", s)
	if !s.Available || sandbox.Level(egress.Unrestricted, s.Requested, s.Layers) != sandbox.LevelNone {
		t.Errorf("the probe says %+v", s)
	}
	for _, e := range r.Examine(t.Context()) {
		t.Logf("%+v", e)
		if !e.Denied || !e.Control {
			t.Errorf("%s: %+v", e.Layer, e)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	keep := []string{fmt.Sprintf("%s%d-abc", runPrefix, os.Getpid()), runPrefix + "x", "other"}
	for _, name := range append(keep, runPrefix+"4294967292-abc") {
		must.Do(t, os.MkdirAll(filepath.Join(r.cfg.RunDir, name, "inside"), 0o700))
	}
	must.Do(t, r.Sweep(t.Context()))
	entries, err := os.ReadDir(r.cfg.RunDir)
	if err != nil || len(entries) != len(keep) {
		t.Errorf("%v are left (%v)", entries, err)
	}
}
