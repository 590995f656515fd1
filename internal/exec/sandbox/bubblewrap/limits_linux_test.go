package bubblewrap

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// tokens counts the host's processes with a token in their arguments.
func tokens(t testing.TB, token string) int {
	t.Helper()
	return len(carriers(t, token))
}

// carriers returns the host's processes with a token in their arguments.
func carriers(t testing.TB, token string) []int {
	t.Helper()
	names := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	var list []int
	for _, name := range names {
		text, err := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && bytes.Contains(text, []byte(token)) && pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	return list
}

// watchEnd opens a process and returns a function that waits for its end with pidfd_open(2).
func watchEnd(t testing.TB, pid int) (wait func()) {
	t.Helper()
	fd := must.Get(unix.PidfdOpen(pid, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	return func() {
		t.Helper()
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				t.Errorf("process %d goes on: %v", pid, err)
			}
			return
		}
	}
}

// noGroupsLeft verifies that the control groups of this process are empty. The runner keeps
// empty groups for later runs.
func noGroupsLeft(t *testing.T, r *Runner) {
	t.Helper()
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "palyra-"+strconv.Itoa(os.Getpid())+"-") {
			members, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if len(members) > 0 {
				t.Errorf("processes left behind in %s: %s", path, members)
			}
		}
		return nil
	})
}

// Not parallel: it searches for processes in the control groups of every run of the process.
func TestDeadlineKillsTheTree(t *testing.T) {
	r := newTestRunner(t)
	token := "token-deadline-" + strconv.Itoa(os.Getpid())
	s := withProbe(t, jailtest.Workspace(t), "linger", token)
	stood := 0 // control: tokens counts them while they live
	s.Output = func(string, []byte) { stood = tokens(t, token) }
	// A slow machine gets more time, until the tree is complete before the deadline.
	for s.Limits.Wall = 700 * time.Millisecond; stood < 7 && s.Limits.Wall < time.Minute; s.Limits.Wall *= 2 {
		report := jailtest.Run(t, r, s)
		if !report.TimedOut || report.ExitCode != nil {
			t.Errorf("ended with %s, exit code %v", jailtest.Ending(report), report.ExitCode)
		}
		if n := tokens(t, token); n > 0 {
			t.Errorf("%d processes outlived the deadline", n)
		}
		late := report.Usage.Wall - s.Limits.Wall
		t.Logf("of %d processes, everything was gone %s after the deadline", stood, late)
		if late > 10*time.Second { // the processes would run for an hour
			t.Errorf("the tree was gone %s after the deadline", late)
		}
	}
	if stood < 7 { // six sleepers and the probe
		t.Errorf("%d processes carried the token while they ran", stood)
	}
	noGroupsLeft(t, r)
}

// A stopped run leaves no zombies, even on machines where no process reaps orphans. This
// process is made the reaper, and receives none.
//
// Not parallel: it adopts orphans for the process and reaps any child of it.
func TestStoppedRunsLeaveNoZombies(t *testing.T) {
	must.Do(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	r := newTestRunner(t)
	for n := range 5 {
		s := withProbe(t, jailtest.Workspace(t), "linger", "token-zombie")
		ctx, cancel := context.WithCancel(t.Context())
		s.Output = func(string, []byte) {
			if n == 0 { // bubblewrap is stopped for a while
				for _, pid := range children(t, "bwrap", "S") {
					_ = unix.Kill(pid, unix.SIGSTOP)
					time.AfterFunc(400*time.Millisecond, func() { _ = unix.Kill(pid, unix.SIGCONT) })
				}
			}
			cancel()
		}
		if _, err := r.Run(ctx, s); reason.Of(err) != reason.Cancelled {
			t.Fatal(err)
		}
	}
	if left := children(t, "", "Z"); len(left) > 0 { // dead, but not reaped yet
		t.Errorf("zombies: %v", left)
	}
	// Control: if bubblewrap is killed immediately, it leaves a zombie.
	cmd := exec.Command(defaultBwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "sh", "-c", "echo up; sleep 100")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(out.Read(make([]byte, 8)))(t)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if pid, err := unix.Wait4(-1, nil, 0, nil); err != nil || pid <= 0 {
		t.Errorf("the control left no zombie: %v", err)
	}
}

// children returns the children of this process in a state (field 3 of proc_pid_stat(5)), with
// a given name or any name ("").
func children(t testing.TB, name, state string) []int {
	t.Helper()
	stats := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t)
	var list []int
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		before, rest, _ := strings.Cut(string(text), ") ")
		pid, called, _ := strings.Cut(before, " (")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] != state || fields[1] != strconv.Itoa(os.Getpid()) || name != "" && called != name {
			continue
		}
		if n, err := strconv.Atoi(pid); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// Not parallel: it searches for processes in the control groups of every run of the process.
func TestBackgroundProcessesEndWithTheProgram(t *testing.T) {
	r := newTestRunner(t)
	token := "token-background-" + strconv.Itoa(os.Getpid())
	report := jailtest.Run(t, r, withProbe(t, jailtest.Workspace(t), "linger", token, "exit"))
	if report.ExitCode == nil || *report.ExitCode != 0 || !strings.Contains(string(report.Stdout.Head), "lingering") {
		t.Errorf("ended with %s: %s", jailtest.Ending(report), report.Stdout.Head)
	}
	if n := tokens(t, token); n > 0 {
		t.Errorf("%d processes outlived the program", n)
	}
	noGroupsLeft(t, r)
}

// Not parallel: it searches for processes in the control groups of every run of the process.
func TestCancel(t *testing.T) {
	r := newTestRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := jailtest.Shell(t, jailtest.Workspace(t), "echo up; sleep 3600")
	s.Output = func(string, []byte) { cancel() }
	report, err := r.Run(ctx, s)
	if reason.Of(err) != reason.Cancelled || report.TimedOut || string(report.Stdout.Head) != "up\n" {
		t.Errorf("Run: %v, report %+v", err, report)
	}
	s.Output = nil
	report, err = r.Run(contextWith(t, 300*time.Millisecond), s)
	if err != nil || !report.TimedOut {
		t.Errorf("Run: %v, timed out %t", err, report.TimedOut)
	}
	noGroupsLeft(t, r)
}

func TestKilledDaemonLeavesNothing(t *testing.T) {
	t.Parallel()
	token := "token-orphan-" + strconv.Itoa(os.Getpid())
	root := jailtest.Workspace(t)
	cmd := jailtest.Again(t, childSpec, childOrder{withProbe(t, root, "linger", token), []string{"example.org:443"}})
	says := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	if line, err := bufio.NewReader(says).ReadString('\n'); err != nil || !strings.Contains(line, "lingering") {
		t.Fatalf("the child said %q, %v", line, err)
	}
	var ends []func()
	for _, pid := range carriers(t, token) {
		ends = append(ends, watchEnd(t, pid))
	}
	if len(ends) < 7 { // six sleepers and the probe
		t.Fatalf("%d processes carry the token while they run", len(ends))
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	start := time.Now()
	for _, wait := range ends {
		wait()
	}
	if n := tokens(t, token); n > 0 {
		t.Errorf("%d processes outlived the daemon", n)
	}
	t.Logf("nothing was left %s after the daemon was reaped", time.Since(start))
	// Its control groups are empty, and the next daemon removes them.
	must.Check(t, newTestRunner(t).Sweep(t.Context()))
	left, err := filepath.Glob("/sys/fs/cgroup/*/palyra-" + strconv.Itoa(cmd.Process.Pid) + "-*")
	if err != nil || len(left) > 0 {
		t.Errorf("control groups left behind: %v, %v", left, err)
	}
}

// Not parallel: it searches for processes in the control groups of every run of the process.
func TestQuotas(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		limits sandbox.Limits
		want   sandbox.Quota
	}{
		{"fork bomb", "f() { f | f & }; f; sleep 30", sandbox.Limits{Processes: 64}, sandbox.QuotaProcesses},
		{"memory", "exec ./probe memory", sandbox.Limits{Memory: 128 << 20}, sandbox.QuotaMemory},
		{"memory in tmp", "exec head -c 200M /dev/zero > /tmp/x; sleep 5", sandbox.Limits{Memory: 64 << 20, FileSize: 1 << 30}, sandbox.QuotaMemory},
		{"cpu over processes", "for i in 1 2 3; do (while :; do :; done) & done; wait", sandbox.Limits{CPU: time.Second}, sandbox.QuotaCPU},
		{"file size", "exec head -c 2M /dev/zero > big", sandbox.Limits{FileSize: 1 << 20}, sandbox.QuotaFileSize},
		{"output", "exec yes", sandbox.Limits{Output: 4096}, sandbox.QuotaOutput},
		{"errors", "exec yes >&2", sandbox.Limits{Output: 4096}, sandbox.QuotaOutput},
		{"nothing", "exec echo fine", sandbox.Limits{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestRunner(t)
			ofTree := []sandbox.Quota{sandbox.QuotaMemory, sandbox.QuotaProcesses, sandbox.QuotaCPU}
			if r.machine.Level() == cgroup.Rlimit && slices.Contains(ofTree, c.want) {
				t.Skip("no control group on this machine counts it; the rlimit is tested by TestWithoutControlGroups")
			}
			root := jailtest.Workspace(t)
			withProbe(t, root)
			s := jailtest.Shell(t, root, c.script)
			s.Limits = c.limits
			report := jailtest.Run(t, r, s)
			if report.Quota != c.want || report.TimedOut {
				t.Errorf("ended with %s, want quota %q; stderr: %.300s", jailtest.Ending(report), c.want, report.Stderr.Head)
			}
			noGroupsLeft(t, r)
		})
	}
}

func TestOutputIsKeptHeadAndTail(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	s := jailtest.Shell(t, jailtest.Workspace(t), "for i in $(seq 1 3000); do echo line $i; done; echo last >&2; exit 3")
	s.Limits.Output = 1000
	report := jailtest.Run(t, r, s)
	var all bytes.Buffer
	for i := range 3000 {
		all.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	sum := sha256.Sum256(all.Bytes())
	out := report.Stdout
	if out.SHA256 != "sha256:"+hex.EncodeToString(sum[:]) || out.Total != int64(all.Len()) || !out.Truncated {
		t.Errorf("total %d, truncated %t, digest %s", out.Total, out.Truncated, out.SHA256)
	}
	if !bytes.Equal(out.Head, all.Bytes()[:500]) || !bytes.Equal(out.Tail, all.Bytes()[all.Len()-500:]) {
		t.Errorf("head %q\ntail %q", out.Head, out.Tail)
	}
	if *report.ExitCode != 3 || string(report.Stderr.Head) != "last\n" || report.Stderr.Truncated {
		t.Errorf("exit %d, stderr %q", *report.ExitCode, report.Stderr.Head)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	root := jailtest.Workspace(t)
	must.Do(t, os.Mkdir(filepath.Join(root, "sub"), 0o755))
	s := jailtest.Shell(t, root, "pwd; cat; kill -TERM $$")
	s.Cwd, s.Stdin = "sub", []byte("given")
	report := jailtest.Run(t, r, s)
	if report.Signal != "SIGTERM" || *report.ExitCode != 143 || string(report.Stdout.Head) != "/workspace/sub\ngiven" {
		t.Errorf("signal %s, exit %v, stdout %q", report.Signal, *report.ExitCode, report.Stdout.Head)
	}
	if out := jailtest.Output(t, r, jailtest.Spec(t, root, "wc", "-c")); out != "0\n" {
		t.Errorf("without stdin: %q", out)
	}
}

// TestMemoryWithoutControlGroups: a run ends if its processes together exceed the limit, even
// if each process is below it. Unused address space does not count. Controls: runs within the
// limit, one of which shares its memory.
func TestMemoryWithoutControlGroups(t *testing.T) {
	t.Parallel()
	const (
		many = "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        held = bytearray(b'x') * (40 << 20)\n        time.sleep(SECONDS)\n        os._exit(0)\nfor _ in range(6):\n    os.wait()\nprint('all ended')"
		// Six processes that map the same 40 MiB count the memory once.
		shared = "import mmap, os, time\nheld = mmap.mmap(-1, 40 << 20)\nheld.write(b'x' * (40 << 20))\nfor _ in range(6):\n    if os.fork() == 0:\n        sum(held[i] for i in range(0, 40 << 20, 4096))\n        time.sleep(1)\n        os._exit(0)\nfor _ in range(6):\n    os.wait()\nprint('all ended')"
		// V8 reserves 10 GiB for each WebAssembly memory.
		reserved = "import mmap, time\nlarge = [mmap.mmap(-1, 10 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0) for _ in range(3)]\ntime.sleep(1)\nprint('all ended')"
	)
	for name, c := range map[string]struct {
		script string
		memory int64
		want   sandbox.Quota
	}{
		"many processes":           {strings.Replace(many, "SECONDS", "3600", 1), 128 << 20, sandbox.QuotaMemory},
		"many processes with room": {strings.Replace(many, "SECONDS", "1", 1), 512 << 20, ""},
		"one process":              {"import time; held = bytearray(b'x') * (300 << 20); time.sleep(3600)", 128 << 20, sandbox.QuotaMemory},
		"shared memory":            {shared, 128 << 20, ""},
		"reserved address space":   {reserved, 128 << 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-S", "-c", c.script)
			s.Limits.Memory = c.memory
			report := jailtest.Run(t, newTestRunner(t, jail.LayerGroup), s)
			if report.Quota != c.want || report.TimedOut || c.want == "" && string(report.Stdout.Head) != "all ended\n" {
				t.Errorf("ended with %s, want quota %q: %s%s", jailtest.Ending(report), c.want, report.Stdout.Head, report.Stderr.Head)
			}
		})
	}
}

// A machine without control groups runs programs under rlimits alone, and the report states
// this.
func TestWithoutControlGroups(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t, jail.LayerGroup)
	root := jailtest.Workspace(t)
	token := "token-rlimit-" + strconv.Itoa(os.Getpid())
	s := withProbe(t, root, "linger", token)
	s.Limits.Wall = 500 * time.Millisecond
	report := jailtest.Run(t, r, s)
	if !report.TimedOut || tokens(t, token) > 0 {
		t.Errorf("ended with %s, %d processes left", jailtest.Ending(report), tokens(t, token))
	}
	if slices.Contains(report.Applied, jail.LayerGroup) || report.Isolation.LimitsBy != cgroup.Rlimit {
		t.Errorf("applied %v, limits by %s", report.Applied, report.Isolation.LimitsBy)
	}
	s = jailtest.Shell(t, root, "while :; do :; done")
	s.Limits.CPU = time.Second
	if report := jailtest.Run(t, r, s); report.Quota != sandbox.QuotaCPU {
		t.Errorf("a loop ended with %s", jailtest.Ending(report))
	}
	s = jailtest.Shell(t, root, "f() { f | f & }; f; sleep 3600")
	s.Limits.Processes = 64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Output = func(string, []byte) { cancel() } // a fork was refused
	if report, err := r.Run(ctx, s); reason.Of(err) != reason.Cancelled || !strings.Contains(string(report.Stderr.Head), "fork") {
		t.Errorf("a fork bomb was not held: %v, %.200s", err, report.Stderr.Head)
	}
}

// Not parallel: it searches for processes in the control groups of every run of the process.
func TestRefusals(t *testing.T) {
	r := newTestRunner(t)
	root := jailtest.Workspace(t)
	other := jailtest.Workspace(t)
	must.Do(t, os.Symlink(other, filepath.Join(root, "out")))
	must.Do(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
	must.Do(t, os.Symlink("dir", filepath.Join(root, "in")))
	jailtest.WriteFile(t, filepath.Join(other, "tool"), "#!/bin/true\n", 0o755)
	outside := must.Get(command.ResolveExecutable(filepath.Join(other, "tool"), nil))(t)
	link := filepath.Join(filepath.Dir(root), "link")
	must.Do(t, os.Symlink(root, link))
	jailtest.WriteFile(t, filepath.Join(root, "bad"), "\x7fELF not really", 0o755)
	good := jailtest.Spec(t, root, "true")
	for _, c := range []struct {
		name string
		edit func(*sandbox.Spec)
		want reason.Code
	}{
		{"zero", func(s *sandbox.Spec) { *s = sandbox.Spec{} }, reason.InvalidInput},
		{"no program", func(s *sandbox.Spec) { s.Executable.SHA256 = "" }, reason.InvalidInput},
		{"many arguments", func(s *sandbox.Spec) { s.Argv = make([]string, 129); s.Argv[0] = "true" }, reason.InvalidInput},
		{"long argument", func(s *sandbox.Spec) { s.Argv = []string{"true", strings.Repeat("x", 128<<10+1)} }, reason.InvalidInput},
		{"NUL", func(s *sandbox.Spec) { s.Argv = []string{"true", "a\x00b"} }, reason.InvalidUTF8},
		{"other bytes", func(s *sandbox.Spec) { s.Executable.SHA256 = "sha256:00" }, reason.BindingMismatch},
		{"gone", func(s *sandbox.Spec) { s.Executable.Path = "/usr/bin/no-such" }, reason.BindingMismatch},
		{"outside of /usr", func(s *sandbox.Spec) { s.Executable = outside.Executable }, reason.ExecutableDenied},
		{"no root", func(s *sandbox.Spec) { s.WorkspaceRoot = root + "-none" }, reason.WorkspaceScope},
		{"relative root", func(s *sandbox.Spec) { s.WorkspaceRoot = "work" }, reason.WorkspaceScope},
		{"the whole machine", func(s *sandbox.Spec) { s.WorkspaceRoot = "/" }, reason.WorkspaceScope},
		{"linked root", func(s *sandbox.Spec) { s.WorkspaceRoot = link }, reason.WorkspaceScope},
		{"cwd above", func(s *sandbox.Spec) { s.Cwd = ".." }, reason.WorkspaceScope},
		{"cwd absolute", func(s *sandbox.Spec) { s.Cwd = "/tmp" }, reason.WorkspaceScope},
		{"cwd through a link", func(s *sandbox.Spec) { s.Cwd = "out" }, reason.WorkspaceScope},
		{"cwd through a link that stays inside", func(s *sandbox.Spec) { s.Cwd = "in" }, reason.WorkspaceScope},
		{"cwd missing", func(s *sandbox.Spec) { s.Cwd = "none" }, reason.WorkspaceScope},
		{"hosts", func(s *sandbox.Spec) { s.Network, s.Egress = new(egress.Reach), egress.Preflight }, reason.InvalidInput},
		{"limits", func(s *sandbox.Spec) { s.Limits.Memory = -1 }, reason.InvalidInput},
		{"not a program", func(s *sandbox.Spec) { *s = jailtest.Spec(t, root, "./bad") }, reason.SpawnFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.edit(&s)
			if _, err := r.Run(t.Context(), s); reason.Of(err) != c.want {
				t.Errorf("Run: %v (%s), want %s", err, reason.Of(err), c.want)
			}
		})
	}
	r.cfg.Enabled = false
	if _, err := r.Run(t.Context(), good); reason.Of(err) != reason.SandboxDisabled {
		t.Errorf("disabled: %v", err)
	}
	noGroupsLeft(t, r)
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	status := r.Probe(t.Context())
	if !status.Available || status.Problem != "" || len(status.Layers) < 10 {
		t.Errorf("status = %+v", status)
	}
	for name, broken := range map[string]func() (*Runner, error){
		"bubblewrap is not installed": func() (*Runner, error) {
			return newRunner(Config{Enabled: true, Bwrap: "/nonexistent/bwrap"}, helperProgram)
		},
		"without palyra-init": func() (*Runner, error) { return newRunner(Config{Enabled: true}, nil) },
		"could not be built": func() (*Runner, error) {
			r, err := newRunner(Config{Enabled: true}, helperProgram)
			r.root.system = append(r.root.system, "--ro-bind", "/nonexistent", "/x")
			return r, err
		},
	} {
		r := must.Get(broken())(t)
		status := r.Probe(t.Context())
		if status.Available || !strings.Contains(status.Problem, name) || status.Remedy == "" {
			t.Errorf("%s: %+v", name, status)
		}
		must.Check(t, r.Close())
	}
}

// The kernel ends the processes of a sandbox before palyrad if memory runs out, and a program
// cannot change that. Control: without Landlock the program can.
func TestProgramsAreKilledBeforePalyrad(t *testing.T) {
	t.Parallel()
	const script = "cat /proc/self/oom_score_adj; echo 0 2>/dev/null >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj"
	own := strings.TrimSpace(string(must.Get(os.ReadFile("/proc/self/oom_score_adj"))(t)))
	for _, c := range []struct {
		mode    sandbox.WorkspaceMode
		without []string
		want    string
	}{
		{sandbox.ReadOnly, nil, "1000\n1000\n"},
		{sandbox.CopyOnWrite, nil, "1000\n1000\n"},
		{sandbox.CopyOnWrite, []string{jail.LayerLandlock}, "1000\n0\n"},
	} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "sh", "-c", script)
		s.Workspace = c.mode
		r := newTestRunner(t, c.without...)
		if r.machine.Landlock() == 0 && c.without == nil || own != "0" && c.without != nil {
			t.Logf("%s without %v is not tried: Landlock of ABI %d, own score %s", c.mode, c.without, r.machine.Landlock(), own)
			continue
		}
		report := jailtest.Run(t, r, s)
		if got := string(report.Stdout.Head); got != c.want {
			t.Errorf("%s without %v: the scores are %q, want %q", c.mode, c.without, got, c.want)
		}
	}
}

// Not parallel: a run of another test in the same groups would change the measurements.
func TestLimitsInResults(t *testing.T) {
	for name, without := range map[string][]string{"control groups": nil, "rlimits": {jail.LayerGroup}} {
		t.Run(name, func(t *testing.T) {
			r := newTestRunner(t, without...)
			grouped := r.machine.Level() != cgroup.Rlimit && without == nil
			if !grouped && without == nil {
				t.Skip("this machine has no control groups; the other case tests rlimits")
			}
			jailtest.Limits(t, r, grouped, true, jailtest.Workspace)
		})
	}
}

// TestMemoryDoesNotGrow: palyrad keeps a bounded part of the output, refusals and attempts of a run,
// and counts the rest.
//
// Not parallel: it measures the heap of the process.
func TestMemoryDoesNotGrow(t *testing.T) {
	const (
		events = 100_000
		bound  = 16 << 20
		script = `import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
for i in range(int(sys.argv[1])):
    libc.fallocate(0, 0, 0, 1 << 20)
    print("a line of the output that is not kept", i)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(3000):
    name = b"".join(bytes([len(p)]) + p for p in (b"name%d" % i, b"blocked", b"test")) + b"\0"
    s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0" + name + b"\0\1\0\1", ("127.0.0.1", 53))
    s.recv(512)
`
	)
	r := newTestRunner(t)
	s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-S", "-c", script, strconv.Itoa(events))
	s.Network, s.Limits.Output = &egress.Reach{}, 128<<10
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	report := jailtest.Run(t, r, s)
	if got := heap() - before; got > bound {
		t.Errorf("%d MiB are held, at most %d are allowed", got>>20, bound>>20)
	}
	list, more := report.Refused()
	if report.ExitCode == nil || *report.ExitCode != 0 || len(report.Refusals) != 1 || report.Refusals[0].Count != events || len(list) > 20 || more < 2900 {
		t.Errorf("ended with %s: %+v, %d more; %.300s", jailtest.Ending(report), report.Refusals, more, report.Stderr.Head)
	}
	if kept := len(report.Stdout.Head) + len(report.Stdout.Tail); kept > 128<<10 || report.Stdout.Total < 40*events {
		t.Errorf("%d of %d bytes kept", kept, report.Stdout.Total)
	}
	runtime.KeepAlive(report)
}
