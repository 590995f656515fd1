package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// sleepers returns a script with n additional processes.
func sleepers(n int) string {
	return fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 3600 & i=$((i+1)); done; wait", n)
}

// Two runs, each within its own limits, together exceed the process limit of all runs. The
// larger one is ended, and the other continues. Control: without the group around them both
// continue.
func TestRunsTogether(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	must.Do(t, tree.Bound(sandbox.Share{Processes: 64, Memory: 512 << 20}))
	large, small := must.Get(tree.Start(sandbox.Limits{Processes: 50}))(t), newGroup(t, tree, sandbox.Limits{Processes: 50})
	mustLaunch(t, large, sleepers(40))
	mustLaunch(t, small, sleepers(20))
	for _, g := range []*Group{large, small} {
		if g.tree.parent == nil || !exists(g.path(g.limiting("pids"), "pids.max")) {
			t.Fatal("a run has no limit of its own below the one of all")
		}
	}
	if got := large.Watch(t.Context()); got != sandbox.QuotaProcesses {
		t.Errorf("the larger run is stopped for %q", got)
	}
	if tree.ends(small) {
		t.Error("the smaller run is stopped while the larger one ends")
	}
	must.Do(t, large.End())
	must.Do(t, large.Close())
	if quota := small.exceeded(); quota != "" || small.Counters.processes() == 0 {
		t.Errorf("the smaller run has %d processes and is stopped for %q once the larger one is gone", small.Counters.processes(), quota)
	}

	free := newTree(t)
	a, b := newGroup(t, free, sandbox.Limits{Processes: 50}), newGroup(t, free, sandbox.Limits{Processes: 50})
	mustLaunch(t, a, sleepers(40))
	mustLaunch(t, b, sleepers(40))
	for _, g := range []*Group{a, b} {
		for ctx := t.Context(); ctx.Err() == nil && g.Counters.processes() < 41; {
		}
		if got := g.exceeded(); got != "" {
			t.Errorf("without the group around it a run is stopped for %q", got)
		}
	}
}

// The kernel keeps all runs together below their common limits, regardless of each run's
// limits.
func TestRunsTogetherAreRefused(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	must.Do(t, tree.Bound(sandbox.Share{Processes: 16}))
	g := newGroup(t, tree, sandbox.Limits{Processes: 1000})
	p := mustLaunch(t, g, sleepers(40)+" 2>/dev/null")
	// A shell that cannot fork gives up.
	state := must.Get(p.Wait())(t)
	if state.Success() || g.Counters.processes() > 16 {
		t.Errorf("it ended with %s, and %d processes run where all runs may have 16", state, g.Counters.processes())
	}
}

// A run is killed, and reports the memory quota, if all runs together exceed the memory limit.
func TestRunsTogetherRunOutOfMemory(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	must.Do(t, tree.Bound(sandbox.Share{Memory: 48 << 20}))
	g := newGroup(t, tree, sandbox.Limits{Memory: 1 << 30})
	mustLaunch(t, g, "x=aaaaaaaa; while :; do x=$x$x; done")
	if got := g.Watch(t.Context()); got != sandbox.QuotaMemory {
		t.Errorf("stopped for %q", got)
	}
}

// A sweep also finds the remains of a dead daemon below the group of its runs.
func TestBoundIsSwept(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	ctx := context.WithoutCancel(t.Context())
	cmd, group, pid := aDaemon(t)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must.Do(t, tree.Sweep(ctx))
	if left := remains(tree, group); len(left) > 0 || exists(fmt.Sprintf("/proc/%d/cgroup", pid)) && inGroup(readFile(fmt.Sprintf("/proc/%d/cgroup", pid)), group) {
		t.Errorf("left behind: %v, process %d", left, pid)
	}
}

// The group is removed if its limits cannot be set.
func TestBoundFails(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if tree.Bound(sandbox.Share{Processes: 1 << 40}) == nil || tree.parent != nil {
		t.Error("a limit that the kernel refuses is taken to be set")
	}
	if err := None().Bound(sandbox.Share{Processes: 5}); err != nil {
		t.Errorf("without control groups: %v", err)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	b := Bounds()
	if b.Processes <= 0 || b.Memory <= 0 {
		t.Errorf("this machine has %+v", b)
	}
	top := t.TempDir()
	inner := filepath.Join(top, "slice", "service")
	must.Do(t, os.MkdirAll(inner, 0o700))
	for dir, limit := range map[string]string{inner: "max\n", filepath.Dir(inner): "1500\n", top: "20\n"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "pids.max"), []byte(limit), 0o600))
		if dir != top { // top is not a group
			must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o600))
		}
	}
	if got := lowest(inner, "pids.max"); got != 1500 {
		t.Errorf("the service may have %d processes", got)
	}
}
