package seatbelt

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

func TestRun(t *testing.T) {
	t.Parallel()
	s := script(t, "cat; pwd; echo $HOME $TMPDIR $GREETING $CACHE; ls -d $HOME $TMPDIR >&2; ls /proc/self/fd; exit 3\n")
	s.Stdin, s.Env = []byte("given\n"), []string{"GREETING=hello"}
	s.Caches = []sandbox.Cache{{Name: "go", Dir: t.TempDir(), Env: []string{"CACHE=/cache/go/build"}}}
	var chunks int
	s.Output = func(string, []byte) { chunks++ }
	r, err := run(t, s)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Stderr.Head)
	}
	lines := strings.Split(string(r.Stdout.Head), "\n")
	if r.ExitCode == nil || *r.ExitCode != 3 || lines[0] != "given" || lines[1] != s.WorkspaceRoot || chunks == 0 {
		t.Errorf("the run came to %+v, %q", r.ExitCode, lines)
	}
	words := strings.Fields(lines[2])
	if !strings.HasSuffix(words[0], "/inside/home") || !strings.HasSuffix(words[1], "/inside/tmp") || words[2] != "hello" || words[3] != s.Caches[0].Dir+"/build" {
		t.Errorf("the environment is %v", words)
	}
	if got := strings.Join(lines[3:], " "); got != "0 1 2 3 " { // 3 belongs to ls
		t.Errorf("open descriptors: %s", got)
	}
	if !slices.Equal(r.Applied, requested(false)) || sandbox.Level(s.Egress, r.Requested, r.Applied) != sandbox.LevelStrict {
		t.Errorf("layers %v of %v", r.Applied, r.Requested)
	}
	i := r.Isolation
	if i.Rlimits["core"] != 0 || i.Rlimits["nofile"] != 1024 || i.HelperSHA == "" || i.BackendSHA == "" || i.ArgumentsSHA == "" || i.Workspace != "direct" || i.Rung != "seatbelt" {
		t.Errorf("the read-back is %+v", i)
	}
	if len(r.Downgrades) != len(limitations) {
		t.Errorf("the downgrades are %v", r.Downgrades)
	}
}

// The helper detects a sandbox that forbids no operations, and the program does not run.
func TestUnprovedLayersRefuse(t *testing.T) {
	t.Parallel()
	s := script(t, "touch ran\n")
	r := newTestRunner(t, ChildCommand)
	report, err := r.Run(t.Context(), s)
	if reason.Of(err) != reason.SandboxUnavailable {
		t.Fatalf("%v", err)
	}
	for _, layer := range []string{layerFiles, layerProtected, layerNetwork} {
		if !strings.Contains(err.Error(), layer) || slices.Contains(report.Applied, layer) {
			t.Errorf("%s is not among what is missing: %v", layer, err)
		}
	}
	entries, _ := os.ReadDir(s.WorkspaceRoot)
	if len(entries) != 1 {
		t.Errorf("the workspace holds %v: the program ran, or a try left something", entries)
	}
}

func TestOpenNetworkIsNoLayer(t *testing.T) {
	t.Parallel()
	for _, mode := range []egress.Mode{egress.Unrestricted, egress.Preflight} {
		s := spec(t, "true")
		s.Egress = mode
		if mode == egress.Preflight {
			s.Network = new(egress.Reach)
		}
		j := &job{spec: s, seen: finding{Denied: denied{true, true, true, false}, Leader: true, Open: []int{}}}
		if unproved := j.judge(); unproved != nil {
			t.Errorf("%s: missing %v", mode, unproved)
		}
		if sandbox.Level(mode, requested(true), j.applied) == sandbox.LevelStrict || slices.Contains(j.applied, layerNetwork) || !slices.ContainsFunc(j.downgrades, func(d string) bool { return strings.HasPrefix(d, layerNetwork) }) {
			t.Errorf("%s: applied %v, downgrades %v", mode, j.applied, j.downgrades)
		}
		j.spec.Required = []string{layerNetwork}
		if unproved := j.judge(); !slices.Equal(unproved, []string{layerNetwork}) {
			t.Errorf("%s: a required layer is missing and %v is", mode, unproved)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	changed := script(t, "")
	copied := filepath.Join(changed.WorkspaceRoot, "program")
	must.Do(t, os.WriteFile(copied, []byte("#!/bin/true\n"), 0o700))
	changed.Executable.Path = copied
	elsewhere := spec(t, "true")
	elsewhere.Executable.Path = filepath.Join(t.TempDir(), "program")
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(t.TempDir(), link))
	with := func(set func(*sandbox.Spec)) sandbox.Spec {
		s := spec(t, "true")
		set(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec sandbox.Spec
		want reason.Code
	}{
		"copy on write":  {with(func(s *sandbox.Spec) { s.Workspace = sandbox.CopyOnWrite }), reason.SandboxUnavailable},
		"hosts":          {with(func(s *sandbox.Spec) { s.Network = new(egress.Reach) }), reason.EgressDenied},
		"no program":     {with(func(s *sandbox.Spec) { s.Executable.Path = "" }), reason.InvalidInput},
		"no argv":        {with(func(s *sandbox.Spec) { s.Argv = nil }), reason.InvalidInput},
		"environment":    {with(func(s *sandbox.Spec) { s.Env = []string{"DYLD_INSERT_LIBRARIES=x"} }), reason.InvalidInput},
		"cwd outside":    {with(func(s *sandbox.Spec) { s.Cwd = ".." }), reason.WorkspaceScope},
		"cwd missing":    {with(func(s *sandbox.Spec) { s.Cwd = "missing" }), reason.WorkspaceScope},
		"linked root":    {with(func(s *sandbox.Spec) { s.WorkspaceRoot = link }), reason.WorkspaceScope},
		"protected name": {with(func(s *sandbox.Spec) { s.Protected = []string{"a\nb"} }), reason.InvalidInput},
		"other bytes":    {changed, reason.BindingMismatch},
		"elsewhere":      {elsewhere, reason.ExecutableDenied},
	} {
		_, err := run(t, c.spec)
		var refused *reason.Error
		if !errors.As(err, &refused) || refused.Code != c.want || refused.NextStep() == "" {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := (&Runner{}).Run(t.Context(), spec(t, "true")); reason.Of(err) != reason.SandboxDisabled {
		t.Errorf("switched off: %v", err)
	}
	r := must.Get(New(Config{Enabled: true}))(t)
	if _, err := r.Run(t.Context(), spec(t, "true")); reason.Of(err) != reason.PlatformUnknown {
		t.Errorf("on Linux: %v", err)
	}
	if s := r.Probe(t.Context()); s.Available || s.Problem == "" || s.Remedy == "" {
		t.Errorf("on Linux the probe says %+v", s)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	const forever = "sh -c 'sleep 60 & sleep 60' &\nsleep 60\n"
	for name, c := range map[string]struct {
		script string
		set    func(*sandbox.Spec)
		quota  sandbox.Quota
		signal string
		timed  bool
	}{
		"wall":      {forever, func(s *sandbox.Spec) { s.Limits.Wall = 200 * time.Millisecond }, "", "", true},
		"output":    {"yes", func(s *sandbox.Spec) { s.Limits.Output = 1000 }, sandbox.QuotaOutput, "", false},
		"cpu":       {"while :; do :; done", func(s *sandbox.Spec) { s.Limits.CPU = time.Second }, sandbox.QuotaCPU, "SIGXCPU", false},
		"file size": {"exec dd if=/dev/zero of=big bs=4096 count=9", func(s *sandbox.Spec) { s.Limits.FileSize = 8192 }, sandbox.QuotaFileSize, "SIGXFSZ", false},
		"processes": {"for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait", func(s *sandbox.Spec) { s.Limits.Processes = 4 }, sandbox.QuotaProcesses, "", false},
		"signal":    {"kill -TERM $$", func(*sandbox.Spec) {}, "", "SIGTERM", false},
		"locked":    {"mkdir -p $TMPDIR/a/b; chmod 0 $TMPDIR/a; kill -TERM $$", func(*sandbox.Spec) {}, "", "SIGTERM", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, c.script)
			c.set(&s)
			r, err := run(t, s)
			if err != nil || r.Quota != c.quota || r.Signal != c.signal || r.TimedOut != c.timed {
				t.Errorf("%v: quota %q, signal %q, timed out %t", err, r.Quota, r.Signal, r.TimedOut)
			}
			if (r.ExitCode == nil) != (c.signal == "") {
				t.Errorf("the exit code is %v", r.ExitCode)
			}
		})
	}
}

// The program's remaining processes end with it.
func TestStraggler(t *testing.T) {
	t.Parallel()
	const beat = "while :; do echo x; sleep 0.01; done >beats 2>&1"
	s := script(t, beat+" &\nwhile [ ! -s beats ]; do :; done\n")
	if r, err := run(t, s); err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Fatalf("%v: %v", err, r.ExitCode)
	}
	read := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "beats"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read(s.WorkspaceRoot)
	// The control sends its beats without a sandbox, even on a busy machine.
	control := exec.CommandContext(t.Context(), "sh", "-c", beat)
	control.Dir = t.TempDir()
	must.Do(t, control.Start())
	must.Eventually(t, "the control beats 20 times", func() (bool, string) {
		n := strings.Count(read(control.Dir), "x")
		return n >= 20, strconv.Itoa(n)
	})
	must.Do(t, control.Process.Kill())
	_ = control.Wait()
	if after := read(s.WorkspaceRoot); after != before || before == "" {
		t.Errorf("a process of the run is still there: %d bytes, then %d", len(before), len(after))
	}
}

// The helper checks the workspace and the program again, because both may have been replaced.
//
// Not parallel: it changes the current directory of the process.
func TestSwapped(t *testing.T) {
	t.Chdir(t.TempDir())
	if step, err := (order{Dir: t.TempDir(), Place: inside.Identity{Dev: 1, Ino: 1}}).settle(); err == nil || step != stepWorkspace {
		t.Errorf("another workspace: %s, %v", step, err)
	}
	if step, err := (order{Exec: "/bin/false", File: inside.Identity{Ino: 1}, Argv: []string{"false"}}).start(); err == nil || step != stepProgram {
		t.Errorf("another program: %s, %v", step, err)
	}
	for step, want := range map[string]reason.Code{
		stepWorkspace: reason.WorkspaceScope, stepProgram: reason.BindingMismatch, stepExec: reason.SpawnFailed, "setting the limit cpu": reason.SandboxUnavailable,
	} {
		line := bufio.NewReader(strings.NewReader(`{"failed":"` + step + `","error":"no"}` + "\n"))
		if err := receive(line, &finding{}); reason.Of(err) != want {
			t.Errorf("%s is told as %v", step, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	s := script(t, "echo started; sleep 60\n")
	ctx, cancel := context.WithCancel(t.Context())
	s.Output = func(string, []byte) { cancel() }
	if _, err := newTestRunner(t, forgingChild).Run(ctx, s); reason.Of(err) != reason.Cancelled {
		t.Errorf("%v", err)
	}
	if _, err := newTestRunner(t, forgingChild).Run(ctx, spec(t, "true")); reason.Of(err) != reason.Cancelled {
		t.Errorf("before the start: %v", err)
	}
}

// The error contains the message of sandbox-exec about an invalid profile.
func TestBrokenProfile(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t, forgingChild)
	r.cfg.ReadRoots = []string{"/" + brokenTag}
	if _, err := r.Run(t.Context(), spec(t, "true")); reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), "unbound variable") {
		t.Errorf("%v", err)
	}
}

func TestProbeAndExamine(t *testing.T) {
	t.Parallel()
	good := newTestRunner(t, forgingChild)
	if s := good.Probe(t.Context()); !s.Available || sandbox.Level(egress.Strict, s.Requested, s.Layers) != sandbox.LevelStrict {
		t.Errorf("the probe says %+v", s)
	}
	// The open profile starts the real helper, for which every attempt succeeds.
	for _, e := range good.Examine(t.Context()) {
		if !e.Denied || !e.Control || e.Problem != "" {
			t.Errorf("%s: %+v", e.Layer, e)
		}
	}
	weak := newTestRunner(t, ChildCommand)
	if s := weak.Probe(t.Context()); s.Available || s.Problem == "" {
		t.Errorf("a sandbox that forbids nothing: %+v", s)
	}
	for _, e := range weak.Examine(t.Context()) {
		if e.Denied || e.Problem == "" || e.Remedy == "" {
			t.Errorf("%s: %+v", e.Layer, e)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t, forgingChild)
	keep := []string{runPrefix + "1-abc", runPrefix + "x", "other"}
	for _, name := range append(keep, runPrefix+"2147483646-abc") {
		must.Do(t, os.MkdirAll(filepath.Join(r.cfg.RunDir, name, "inside"), 0o700))
	}
	must.Do(t, r.Sweep(t.Context()))
	entries, err := os.ReadDir(r.cfg.RunDir)
	if err != nil || len(entries) != len(keep) {
		t.Errorf("%v are left (%v)", entries, err)
	}
}

func TestHelperWithoutARunner(t *testing.T) {
	t.Parallel()
	if err := child(nil, nil, attempt); err == nil {
		t.Error("the helper runs without a runner")
	}
}
