package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

func TestProcessStartsInTheGroups(t *testing.T) {
	t.Parallel()
	g := newGroup(t, newTree(t), sandbox.Limits{})
	p := mustLaunch(t, g, "exec sleep 3600")
	if !g.Holds(p.Pid) || g.Holds(os.Getpid()) {
		t.Errorf("holds the program: %t, this process: %t", g.Holds(p.Pid), g.Holds(os.Getpid()))
	}
	if !slices.Equal(g.members(), []int{p.Pid}) {
		t.Errorf("members are %v, the program is %d", g.members(), p.Pid)
	}
	// The children of the process start there as well.
	if text := readFile("/proc/" + some([]int{p.Pid}) + "/cgroup"); !inGroup(text, g.Name()) {
		t.Errorf("the program is in %s", text)
	}
}

func TestEnterAndLeave(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if tree.Level() == V2 {
		t.Skip("there is nothing to enter: the unified hierarchy takes a program at its birth")
	}
	g := newGroup(t, tree, sandbox.Limits{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadGroups()
	must.Do(t, g.Enter())
	if !inside(g.Name()) {
		t.Error("the thread did not enter")
	}
	// Threads that the runtime starts in the meantime must not start in the groups.
	for range 8 {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with its goroutine
			done <- inside(g.Name())
		}()
		if <-done {
			t.Error("another thread of the daemon is in the group")
		}
	}
	must.Do(t, g.Leave())
	if after := threadGroups(); after != before {
		t.Errorf("the thread was in\n%s\nand is in\n%s", before, after)
	}
}

// A thread that could not enter every group leaves all of them.
func TestEnterFails(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if tree.Level() == V2 {
		t.Skip("there is nothing to enter")
	}
	g := newGroup(t, tree, sandbox.Limits{})
	for controller := range tree.v1 {
		broken := tree.group(g.name)
		for c, dir := range g.dirs {
			broken.dirs[c] = dir
		}
		broken.dirs[controller] = filepath.Join(t.TempDir(), "none")
		runtime.LockOSThread()
		err := broken.Enter()
		in := inside(g.Name())
		runtime.UnlockOSThread()
		if !errors.Is(err, fs.ErrNotExist) || in {
			t.Errorf("without %s: %v, inside: %t", controller, err, in)
		}
	}
	home := tree.home
	tree.home = []int{-1}
	defer func() { tree.home = home }()
	if g.Leave() == nil {
		t.Error("a thread that cannot leave is not told")
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if _, err := tree.Start(sandbox.Limits{Memory: -7}); err == nil {
		t.Error("a limit that the kernel refuses is taken to be set")
	}
	broken := &Tree{level: tree.level, v2: tree.v2, v1: map[string]string{"memory": filepath.Join(t.TempDir(), "none")}, mark: tree.mark, sweepDirs: tree.sweepDirs}
	for c, dir := range tree.v1 {
		if c != "memory" {
			broken.v1[c] = dir
		}
	}
	if _, err := broken.Start(sandbox.Limits{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a place for memory: %v", err)
	}
	// TestMain finds the remains of both.
}

// The names of two trees of one process differ.
func TestNamesAreFree(t *testing.T) {
	t.Parallel()
	a := newGroup(t, newTree(t), sandbox.Limits{})
	b := newGroup(t, newTree(t), sandbox.Limits{})
	if a.Name() == b.Name() {
		t.Errorf("both groups are %s", a.Name())
	}
}

// TestFindAtOnce: several Trees of one process probe the same groups concurrently.
func TestFindAtOnce(t *testing.T) {
	t.Parallel()
	want := newTree(t).Level()
	levels := make(chan string)
	const trees = 32
	for range trees {
		go func() {
			tree := Find()
			levels <- tree.Level()
			must.Check(t, tree.Close())
		}()
	}
	for range trees {
		if got := <-levels; got != want {
			t.Errorf("the level is %s, want %s", got, want)
		}
	}
}

// firstMark makes this binary determine its groups while its first thread is in a run.
const firstMark = "TEST_PALYRA_FIRST"

// onFirstThread calls fn on the first thread of the process and returns its result.
func onFirstThread(fn func() int) int {
	result := make(chan int)
	for {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				result <- fn()
			}
			result <- -1
			select {} // keeps this thread, so that the next goroutine gets another one
		}()
		if n := <-result; n >= 0 {
			return n
		}
	}
}

// firstMain prints the results of Find before, during and after the run, and whether Bounds was
// unchanged.
func firstMain() int {
	tree, bounds := Find(), Bounds()
	places := func(t *Tree) string { return fmt.Sprint(t.level, t.v1, t.v2) }
	before := places(tree)
	g, err := tree.Start(sandbox.Limits{Memory: 16 << 20, Processes: 16})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = g.Enter()
	within := Find()
	in, same := places(within), Bounds() == bounds
	if err = errors.Join(err, g.Leave(), within.Close(), g.Close(), tree.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%s\n%s\n%t\n", before, in, same)
	return 0
}

// TestFindWithinARun: a daemon whose first thread is in the group of a run finds its own groups
// and limits.
func TestFindWithinARun(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{firstMark + "=1"}
	out, err := cmd.CombinedOutput()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 3 || lines[0] != lines[1] || lines[2] != "true" {
		t.Errorf("before, in the run, and whether the bounds are the same: %v\n%s", err, out)
	}
}

func TestFindProbesTheGroups(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	own := map[string]string{"memory": file, "pids": file, "cpuacct": file, "freezer": file, "": file}
	if tree := find(own); tree.Level() != Rlimit || len(tree.v1) > 0 || tree.v2 != "" {
		t.Errorf("where nothing can be made: %s, %v, %q", tree.Level(), tree.v1, tree.v2)
	}
	// No thread could return to a group that does not belong to the daemon.
	other := t.TempDir()
	for _, file := range []string{"tasks", "cgroup.procs"} {
		must.Do(t, os.WriteFile(filepath.Join(other, file), []byte("1\n"), 0o600))
	}
	if tree := find(map[string]string{"memory": other, "pids": other}); tree.Level() != Rlimit || len(tree.home) > 0 {
		t.Errorf("in a group that is not the daemon's: %s", tree.Level())
	}
	if tree := find(nil); tree.Level() != Rlimit {
		t.Errorf("where there is nothing: %s", tree.Level())
	}
}

func TestRlimit(t *testing.T) {
	t.Parallel()
	tree := None()
	g := must.Get(tree.Start(sandbox.Limits{}))(t)
	if g.Dir() != nil || g.Holds(os.Getpid()) || g.Counters.CPU() != 0 || g.Counters.PeakMemory() != 0 || g.Counters.PeakProcesses() != 0 || g.Verdict(true) != "" {
		t.Errorf("a group of nothing counts: %+v", g)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if quota := g.Watch(ctx); quota != "" || ctx.Err() == nil {
		t.Errorf("a group of nothing was stopped for %q", quota)
	}
	g.Kill()
	must.Check(t, errors.Join(g.Enter(), g.Leave(), g.End(), g.Close(), tree.Close(), tree.Sweep(t.Context())))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, c := range []struct {
		name, script string
		limits       sandbox.Limits
		want         sandbox.Quota
	}{
		{"memory", "head -c 200M /dev/zero | tail -c 200M > /dev/null; sleep 3600", sandbox.Limits{Memory: 16 << 20}, sandbox.QuotaMemory},
		{"processes", bomb, sandbox.Limits{Processes: 16}, sandbox.QuotaProcesses},
		{"cpu", "while :; do :; done & while :; do :; done", sandbox.Limits{CPU: 300 * time.Millisecond}, sandbox.QuotaCPU},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, tree, c.limits)
			mustLaunch(t, g, c.script)
			ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
			defer cancel()
			if got := g.Watch(ctx); got != c.want {
				t.Fatalf("stopped for %q; memory %d, processes %d, cpu %s", got, g.Counters.PeakMemory(), g.Counters.PeakProcesses(), g.Counters.CPU())
			}
			if c.want == sandbox.QuotaCPU && g.Counters.CPU() > c.limits.CPU+10*time.Second {
				t.Errorf("stopped after %s", g.Counters.CPU())
			}
			must.Do(t, g.End())
			if got := g.Verdict(true); got != c.want {
				t.Errorf("the verdict is %q", got)
			}
		})
	}
}

// A program that cannot fork continues: only a fork bomb is stopped.
func TestRefusedFork(t *testing.T) {
	t.Parallel()
	g := newGroup(t, newTree(t), sandbox.Limits{Processes: 4})
	p := mustLaunch(t, g, `
		sleep 3600 & a=$!; sleep 3600 & b=$!; sleep 3600 & c=$!
		(exec sleep 0) 2>/dev/null
		[ $? = 0 ] && exit 9
		kill $a $b $c; wait; sleep 0; exit 7`)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan sandbox.Quota)
	go func() { stopped <- g.Watch(ctx) }()
	state, err := p.Wait()
	cancel()
	if quota := <-stopped; quota != "" {
		t.Errorf("the run was stopped for %q", quota)
	}
	// The shell itself ends if it cannot fork (2), or continues (7).
	if err != nil || state.ExitCode() != 7 && state.ExitCode() != 2 {
		t.Errorf("the program ended with %v, %v", state, err)
	}
	if failed, fine := g.Verdict(true), g.Verdict(false); failed != sandbox.QuotaProcesses || fine != "" {
		t.Errorf("the verdict is %q when it failed and %q when not", failed, fine)
	}
}

// The kernel's notification ends the wait while processor time remains.
func TestNotificationEndsTheWait(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	g := newGroup(t, tree, sandbox.Limits{Memory: 16 << 20, Processes: 16})
	notices := g.listen()
	defer notices.close()
	if notices.complete != (tree.Level() == V2) {
		t.Errorf("at level %s the kernel tells everything: %t", tree.Level(), notices.complete)
	}
	if notices.complete {
		mustLaunch(t, g, bomb)
		if !notices.wait(t.Context(), must.Patience) {
			t.Error("refused forks did not ring")
		}
		must.Do(t, g.End())
	}
	for notices.wait(t.Context(), 20*time.Millisecond) { // skips delayed notifications
	}
	mustLaunch(t, g, "head -c 200M /dev/zero | tail -c 200M > /dev/null; sleep 3600")
	if !notices.wait(t.Context(), must.Patience) {
		t.Error("memory that ran out did not ring")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	start := time.Now()
	for notices.wait(ctx, time.Hour) {
	}
	if took := time.Since(start); took > must.Patience {
		t.Errorf("the wait went on for %s after its context", took)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	dead, deadGroup, deadRun := aDaemon(t)
	_, livingGroup, livingRun := aDaemon(t)
	living := remains(tree, livingGroup)
	if len(remains(tree, deadGroup)) < 1 || len(living) < 1 {
		t.Fatal("the daemons made no groups")
	}
	mine := newGroup(t, tree, sandbox.Limits{})
	must.Do(t, dead.Process.Kill())
	_ = dead.Wait()
	if unix.Kill(deadRun, 0) != nil {
		// Every daemon that starts on this machine sweeps as well.
		t.Log("its run ended with the daemon, or somebody else was faster")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Sweep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
	must.Do(t, tree.Sweep(t.Context()))
	if left := remains(tree, deadGroup); len(left) > 0 {
		t.Errorf("left after the sweep: %v", left)
	}
	if running(deadRun) {
		t.Error("the dead daemon's run goes on")
	}
	if !slices.Equal(remains(tree, livingGroup), living) || !running(livingRun) || len(remains(tree, mine.Name())) == 0 {
		t.Error("the sweep took what belongs to a living daemon")
	}
	// The neighbor ends by itself; its groups belong only to this test.
	must.Check(t, unix.Kill(livingRun, unix.SIGKILL))
	t.Cleanup(func() { clearTestGroup(t, tree, livingGroup) })
}

// clearTestGroup ends and removes the groups of a daemon that this test started.
func clearTestGroup(t *testing.T, tree *Tree, name string) {
	t.Helper()
	g := tree.group(name)
	for _, p := range tree.sweepDirs {
		dir := filepath.Join(p.dir, name)
		g.dirs[p.controller] = dir
		g.below = append(g.below, below(dir, deepest)...)
	}
	must.Check(t, g.End())
	for _, dir := range slices.Concat(g.below, g.distinct()) {
		must.Check(t, removeDir(dir))
	}
}

func running(pid int) bool {
	text := readFile("/proc/" + some([]int{pid}) + "/stat")
	return text != "" && !strings.Contains(text, ") Z ")
}

// Processes outside this PID namespace may have a daemon there.
func TestSweepSparesForeign(t *testing.T) {
	t.Parallel()
	tree := &Tree{sweepDirs: []groupDir{{"", t.TempDir()}}}
	for name, procs := range map[string]string{"palyra-4194305-1-1": "0\n0\n", "palyra-4194305-1-2": ""} {
		dir := filepath.Join(tree.sweepDirs[0].dir, name)
		must.Do(t, os.Mkdir(dir, 0o700))
		if procs != "" {
			must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(procs), 0o600))
		}
	}
	must.Check(t, tree.Sweep(t.Context()))
	if left := remains(tree, "palyra-"); len(left) != 1 || !strings.HasSuffix(left[0], "-1-1") {
		t.Errorf("left: %v", left)
	}
}

// TestSweepSparesOtherUsers: the group of another user does not fail the sweep of an ordinary user.
// Control: the sweep of its owner removes it.
func TestSweepSparesOtherUsers(t *testing.T) {
	t.Parallel()
	tree := &Tree{sweepDirs: []groupDir{{"", t.TempDir()}}}
	must.Do(t, os.Mkdir(filepath.Join(tree.sweepDirs[0].dir, "palyra-4194305-1-1"), 0o700))
	must.Check(t, tree.sweepFor(t.Context(), os.Geteuid()+1))
	if left := remains(tree, "palyra-"); len(left) != 1 {
		t.Errorf("the sweep of another user left %v", left)
	}
	must.Check(t, tree.sweepFor(t.Context(), os.Geteuid()))
	if left := remains(tree, "palyra-"); len(left) != 0 {
		t.Errorf("control: the sweep of the owner left %v", left)
	}
}

func TestOrphaned(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		None().name(3): false, "palyra-4194305-1-1": true, "palyra-4194305-1-0": true, "palyra-4194305-1": false,
		"palyra-x-1-1": false, "palyra": false, "other-4194305-1-1": false, "palyra-4194305-1-1-1": false, "palyra--1": false,
	} {
		if got := orphaned(name); got != want {
			t.Errorf("orphaned(%q) = %t", name, got)
		}
	}
}
