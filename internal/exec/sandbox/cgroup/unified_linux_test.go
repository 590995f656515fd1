package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/origin"
)

// fakeGroup returns a group of the unified hierarchy with ordinary files, because this
// machine's kernel may support only another level.
func fakeGroup(t *testing.T, limits sandbox.Limits) *Group {
	t.Helper()
	tree := &Tree{level: V2, v2: t.TempDir(), mark: origin.Mark()}
	g := must.Get(tree.make())(t)
	t.Cleanup(func() { g.dir.Close() })
	for _, file := range []string{"memory.max", "pids.max"} {
		put(t, g, file, "max\n")
	}
	g.limits = limits.OrDefault()
	must.Do(t, g.bound(g.limits))
	return g
}

func put(t *testing.T, g *Group, file, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(g.path("", file), []byte(text), 0o600))
}

func TestUnifiedLimits(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t, sandbox.Limits{})
	for _, file := range []string{"memory.max", "pids.max", "memory.swap.max", "memory.oom.group"} {
		put(t, g, file, "")
	}
	must.Do(t, g.bound(sandbox.Limits{Memory: 1 << 20, Processes: 7}))
	for file, want := range map[string]string{"memory.max": "1048576", "pids.max": "7", "memory.swap.max": "0", "memory.oom.group": "1"} {
		if got := g.read("", file); got != want {
			t.Errorf("%s = %q, want %q", file, got, want)
		}
	}
	// The limit files exist on every kernel, so a missing one is an error.
	for _, file := range []string{"memory.max", "pids.max"} {
		must.Do(t, os.Remove(g.path("", file)))
		if g.bound(sandbox.Limits{}.OrDefault()) == nil {
			t.Errorf("without %s the limits are taken to be set", file)
		}
		put(t, g, file, "")
	}
}

func TestUnifiedCounters(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t, sandbox.Limits{Processes: 10, CPU: time.Second})
	put(t, g, "cpu.stat", "usage_usec 1500\nuser_usec 1\n")
	put(t, g, "memory.peak", "4096\n")
	put(t, g, "pids.peak", "3\n")
	if g.Counters.CPU() != 1500*time.Microsecond || g.Counters.PeakMemory() != 4096 || g.Counters.PeakProcesses() != 3 {
		t.Errorf("cpu %s, memory %d, processes %d", g.Counters.CPU(), g.Counters.PeakMemory(), g.Counters.PeakProcesses())
	}
	for _, c := range []struct {
		name, memory, processes, cpu string
		stop, failed, fine           sandbox.Quota
	}{
		{"nothing", "oom 1\noom_kill 0\n", "max 0\n", "usage_usec 5\n", "", "", ""},
		{"one refused fork", "oom_kill 0\n", "max 1\n", "usage_usec 5\n", "", sandbox.QuotaProcesses, ""},
		{"as many as it may have", "oom_kill 0\n", "max 10\n", "usage_usec 5\n", "", sandbox.QuotaProcesses, ""},
		{"a bomb", "oom_kill 0\n", "max 11\n", "usage_usec 5\n", sandbox.QuotaProcesses, sandbox.QuotaProcesses, ""},
		{"killed for memory", "oom_kill 1\n", "max 11\n", "usage_usec 5000000\n", sandbox.QuotaMemory, sandbox.QuotaMemory, sandbox.QuotaMemory},
		{"processor time", "oom_kill 0\n", "max 1\n", "usage_usec 1000001\n", sandbox.QuotaCPU, sandbox.QuotaCPU, ""},
		{"nothing to read", "", "", "", "", "", ""},
	} {
		put(t, g, "memory.events", c.memory)
		put(t, g, "pids.events", c.processes)
		put(t, g, "cpu.stat", c.cpu)
		if got := g.exceeded(); got != c.stop {
			t.Errorf("%s: stopped for %q, want %q", c.name, got, c.stop)
		}
		if failed, fine := g.Verdict(true), g.Verdict(false); failed != c.failed || fine != c.fine {
			t.Errorf("%s: verdict %q when it failed, %q when not", c.name, failed, fine)
		}
	}
}

// Watch polls if it receives no notifications.
func TestWatchPolls(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t, sandbox.Limits{})
	time.AfterFunc(20*time.Millisecond, func() { put(t, g, "memory.events", "oom_kill 1\n") })
	if got := g.Watch(t.Context()); got != sandbox.QuotaMemory {
		t.Errorf("stopped for %q", got)
	}
}

func TestUntilCPU(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t, sandbox.Limits{CPU: time.Hour})
	if got := g.untilCPU(); got != maxCPUInterval {
		t.Errorf("far from the limit: %s", got)
	}
	put(t, g, "cpu.stat", "usage_usec 3599999999\n")
	if got := g.untilCPU(); got != tick {
		t.Errorf("at the limit: %s", got)
	}
	if got := None().group("").untilCPU(); got != 0 {
		t.Errorf("where nothing counts: %s", got)
	}
}

// The wait uses timers if no file descriptors are free.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if (&notifier{}).wait(t.Context(), time.Second) || time.Since(start) != time.Second {
			t.Errorf("waited %s", time.Since(start))
		}
	})
}

func TestDelegates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, control, available string
		readOnly                 bool
		want                     bool
	}{
		{"given already", "cpu memory pids", "", false, true},
		{"asked for", "", "cpu memory pids", false, true},
		{"not to be had", "", "cpu pids", false, false},
		{"not to be written", "", "memory pids", true, false},
	} {
		dir := t.TempDir()
		control := filepath.Join(dir, "cgroup.subtree_control")
		must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(c.available), 0o600))
		if c.readOnly { // a directory cannot be written as a file, even by root
			must.Do(t, os.Mkdir(control, 0o700))
		} else if err := os.WriteFile(control, []byte(c.control), 0o600); err != nil {
			t.Fatal(err)
		}
		got := delegates(dir)
		if !c.want && got {
			t.Errorf("%s: taken to be delegated", c.name)
		}
		// An ordinary file contains the requested value, not the effective one.
		if asked := readFile(control) == "+memory +pids"; c.name == "asked for" && !asked {
			t.Errorf("%s: wrote %q", c.name, readFile(control))
		}
		if c.name == "given already" && !got {
			t.Errorf("%s: not taken to be delegated", c.name)
		}
	}
}
