package bubblewrap

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"encoding/json"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
)

func TestOwnGroups(t *testing.T) {
	const hybrid = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 /docker/abc /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
broken line`
	got := ownGroupsFrom(hybrid, "8:pids:/docker/abc/own\n4:memory:/service/x\n2:cpu,cpuacct:/\n0::/system.slice/palyra.service\nbroken\n")
	want := map[string]string{
		"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory/service/x",
		"pids": "/sys/fs/cgroup/pids/own", "": "/sys/fs/cgroup/unified/system.slice/palyra.service",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	const pure = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	if got := ownGroupsFrom(pure, "0::/../other\n"); got[""] != "/sys/fs/cgroup" {
		t.Errorf("a path outside the view: %v", got)
	}
}

func TestOrphaned(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	for name, want := range map[string]bool{
		groupPrefix + me + "-" + startTime(os.Getpid()) + "-1": false,
		groupPrefix + me + "-1-1":                              true, // the number was used before
		groupPrefix + "4194304-1-1":                            true, // beyond the largest pid
		groupPrefix + "probe-" + me:                            false,
		"palyra":                                               false, "other-1-1-1": false, groupPrefix + "x-1-1": false,
	} {
		if got := orphaned(name); got != want {
			t.Errorf("orphaned(%q) = %t", name, got)
		}
	}
}

// The unified level writes other files than the one this machine may have.
func TestUnifiedGroup(t *testing.T) {
	dir := t.TempDir()
	g := &group{name: "run", dirs: map[string]string{"": dir}, limits: true}
	if err := g.bound(sandbox.Limits{Memory: 1 << 20, Processes: 7}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "1048576", "pids.max": "7", "memory.swap.max": "0", "memory.oom.group": "1"} {
		if got := g.read("", file); got != want {
			t.Errorf("%s = %q, want %q", file, got, want)
		}
	}
	writeFile(t, filepath.Join(dir, "cpu.stat"), "usage_usec 1500\nuser_usec 1\n", 0o644)
	writeFile(t, filepath.Join(dir, "memory.peak"), "4096\n", 0o644)
	writeFile(t, filepath.Join(dir, "memory.events"), "oom 1\noom_kill 0\n", 0o644)
	if g.cpu() != 1500*time.Microsecond || g.peakMemory() != 4096 || g.exceeded() != "" {
		t.Errorf("cpu %s, memory %d, exceeded %q", g.cpu(), g.peakMemory(), g.exceeded())
	}
	writeFile(t, filepath.Join(dir, "pids.events"), "max 3\n", 0o644)
	if g.exceeded() != sandbox.QuotaProcesses {
		t.Errorf("exceeded %q", g.exceeded())
	}
	writeFile(t, filepath.Join(dir, "memory.events"), "oom 1\noom_kill 1\n", 0o644)
	if g.exceeded() != sandbox.QuotaMemory {
		t.Errorf("exceeded %q", g.exceeded())
	}
}

// The arguments carry out section 3.2 of the design in its order.
func TestArguments(t *testing.T) {
	args := arguments(layout{source: "/run/workspace", cwd: "sub", tmp: 1 << 20, firstData: 8})
	last := -1
	for _, step := range []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--uid", "--hostname", "--die-with-parent", "--new-session",
		"--clearenv", "--cap-drop", "--cap-add", "/usr", "/etc/passwd", "--proc", "/proc/kallsyms", "/dev", "/dev/shm", "/tmp", sandbox.Home, "--remount-ro", "/run/workspace", "--chdir",
	} {
		i := slices.Index(args[last+1:], step)
		if i < 0 {
			t.Fatalf("%s is missing or out of order in %q", step, args)
		}
		last += i + 1
	}
	for _, never := range []string{"--unshare-all", "--share-net", "--dev", "--ro-bind-try", "/sys", "--setenv", "/home", "/root", "CAP_SYS_ADMIN", "CAP_NET_ADMIN"} {
		if slices.Contains(args, never) {
			t.Errorf("%s is among the arguments", never)
		}
	}
	if slices.Contains(arguments(layout{source: "/w", readOnly: true}), "--bind") {
		t.Error("a read-only workspace is bound for writing")
	}
}

// Layers that nobody asked for must not appear in the read-back: the helper
// measures and does not repeat what it was told. It runs here without
// bubblewrap and without any layer.
func TestReadBackMeasures(t *testing.T) {
	r := newTestRunner(t, nil)
	root := newWorkspace(t)
	j, err := r.prepare(specOf(t, root, "true"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.close(); err != nil {
			t.Error(err)
		}
	}()
	w, err := openWorkspace(root, "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.dir.Close()
	program, err := r.resolver.OpenExecutable(j.spec.Executable)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	inner, err := j.inner(program, w)
	if err != nil {
		t.Fatal(err)
	}
	inner.Dir = root
	inner.DropCapabilities, inner.NoNewPrivs, inner.Landlock, inner.Seccomp, inner.Rlimits = false, false, nil, nil, nil
	text, err := json.Marshal(inside.Spec{Inner: inner})
	if err != nil {
		t.Fatal(err)
	}
	j.child[inside.SpecFD].Close()
	if j.child[inside.SpecFD], err = dataFile("spec", text); err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(selfPath(inside.HelperFD), []string{helperName, inside.StageInner}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: j.child[:inside.ExtraFD], Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := j.receive()
	_ = p.Kill()
	if _, waitErr := p.Wait(); err != nil || waitErr != nil {
		t.Fatal(err, waitErr)
	}
	j.seen.report, j.seen.init = report, p.Pid
	if unproved := j.judge(); len(unproved) < 10 {
		t.Errorf("only these layers are missed: %v; read back %+v", unproved, report)
	}
	if report.NoNewPrivs || report.Seccomp != 0 || report.LandlockABI != 0 || report.Namespaces["net"] != r.own["net"] {
		t.Errorf("read back %+v", report)
	}
	if os.Geteuid() == 0 && empty(report.CapEff) {
		t.Error("root without layers reads back no capability")
	}
}

// The outer stage refuses to go on when its daemon is gone, and a spec that
// is not sealed is not read.
func TestHelperRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		stage string
		spec  inside.Spec
		seal  bool
		want  string
	}{
		"dead daemon":   {inside.StageOuter, inside.Spec{Outer: inside.Outer{Parent: 1, Exec: "/usr/bin/true", Argv: []string{"true"}}}, true, "checking that the daemon lives"},
		"unsealed spec": {inside.StageOuter, inside.Spec{}, false, "checking the seals"},
		"unknown stage": {"other", inside.Spec{}, true, "reading the stage"},
		"bad landlock": {inside.StageInner, inside.Spec{Inner: inside.Inner{
			Dir: "/", Workspace: identityOf(t, "/"), Landlock: &inside.Landlock{ABI: 2, Rules: []inside.Rule{{Path: "/", Access: "all"}}}, NoNewPrivs: true,
		}}, true, "granting /"},
		"bad filter": {inside.StageInner, inside.Spec{Inner: inside.Inner{
			Dir: "/", Workspace: identityOf(t, "/"), Exec: "/usr", File: identityOf(t, "/usr"), NoNewPrivs: true, Seccomp: []byte{1, 2, 3},
		}}, true, "installing the system call filter"},
		"other workspace": {inside.StageInner, inside.Spec{Inner: inside.Inner{Dir: "/", Workspace: identityOf(t, "/usr")}}, true, inside.StepWorkspace},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestRunner(t, nil)
			j := &job{runner: r}
			if err := j.descriptors(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = j.close() }()
			text, err := json.Marshal(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := dataFile("spec", text)
			if !c.seal {
				spec, err = os.CreateTemp(t.TempDir(), "spec")
			}
			if err != nil {
				t.Fatal(err)
			}
			j.child[inside.SpecFD], j.child[inside.HelperFD] = spec, r.helper
			p, err := os.StartProcess(selfPath(inside.HelperFD), []string{helperName, c.stage}, &os.ProcAttr{Dir: "/", Env: []string{}, Files: j.child[:inside.ArgsFD]})
			if err != nil {
				t.Fatal(err)
			}
			_, err = j.receive()
			if state, waitErr := p.Wait(); waitErr != nil || state.ExitCode() != 125 {
				t.Errorf("the helper ended with %v, %v", state, waitErr)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) && c.want != inside.StepWorkspace {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func identityOf(t *testing.T, name string) inside.Identity {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}
}

// Layers belong to threads; under load each run must still prove all of them.
func TestManyRunsAtOnce(t *testing.T) {
	r := newTestRunner(t, nil)
	root := newWorkspace(t)
	s := specOf(t, root, "true")
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 15 {
				report, err := r.Run(t.Context(), s)
				if err != nil || report.Isolation.SeccompMode != 2 || report.Isolation.LandlockABI != r.landlock {
					t.Errorf("Run: %v, isolation %+v", err, report.Isolation)
					return
				}
			}
		})
	}
	workers.Wait()
	noGroupsLeft(t, r)
}
