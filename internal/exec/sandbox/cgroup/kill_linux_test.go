package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// escapes are process trees that try to outlive their end.
var escapes = []struct {
	name, script string
	least        int // the number of processes that must exist before the kill
}{
	{"setsid", "setsid sleep 3600 & setsid sleep 3600 & wait", 3},
	{"double fork", `(sleep 3600 & setsid sh -c "sleep 3600 & exec sleep 3600" &) ; exec sleep 3600`, 4},
	{"stopped", "sleep 3600 & kill -STOP $!; (kill -STOP $$)& exec sleep 3600", 2},
	{"deaf", `trap "" TERM HUP INT QUIT; sh -c "sleep 3600; sleep 3600" & while :; do sleep 3600; done`, 3},
	{"fork bomb", `exec bash -c 'b() { while :; do b & done; }; b' 2>/dev/null`, 200}, // bash retries
	{"vfork storm", "for i in 1 2 3 4; do (while :; do /bin/true; done) & done; wait", 5},
}

// bomb quickly exceeds its process limit. Unlike a shell, which ends after a failed fork, each
// of its processes retries.
const bomb = `exec python3 -c 'import os
while True:
    try:
        os.fork()
    except OSError:
        pass'`

// waitFor waits until a process tree has at least a given size.
func waitFor(t testing.TB, g *Group, least int) {
	t.Helper()
	must.Eventually(t, fmt.Sprintf("%d processes", least), func() (bool, string) {
		n := len(g.members())
		return n >= least, fmt.Sprint(n)
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, c := range escapes {
		t.Run(c.name, func(t *testing.T) {
			var took []time.Duration
			for range 5 {
				g := newGroup(t, tree, sandbox.Limits{Processes: 256})
				mustLaunch(t, g, c.script)
				waitFor(t, g, c.least)
				start := time.Now()
				must.Do(t, g.End())
				took = append(took, time.Since(start))
				if left := g.members(); len(left) > 0 {
					t.Fatalf("%v outlived the end", left)
				}
			}
			slices.Sort(took)
			t.Logf("gone after %s at best, %s in the middle, %s at worst", took[0], took[len(took)/2], took[len(took)-1])
			if took[len(took)/2] > tree.endWait/2 { // the shells would run for an hour
				t.Errorf("the tree was gone after %v", took)
			}
		})
	}
}

// One Kill is sufficient, because a deadline must not depend on a retry.
func TestKillOnce(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, c := range escapes {
		g := newGroup(t, tree, sandbox.Limits{Processes: 256})
		mustLaunch(t, g, c.script)
		waitFor(t, g, c.least)
		g.Kill()
		must.Eventually(t, c.name+": no process outlives the kill", func() (bool, string) {
			n := len(g.members())
			return n == 0, fmt.Sprint(n)
		})
	}
}

// The kernel may release an ended process late, like a process that ends late.
func TestGroupIsRemovedLate(t *testing.T) {
	t.Parallel()
	g := newGroup(t, newTree(t), sandbox.Limits{})
	p := mustLaunch(t, g, "exec sleep 3600")
	time.AfterFunc(400*time.Millisecond, func() { _ = p.Kill() })
	for _, dir := range g.distinct() {
		must.Check(t, removeDir(dir))
	}
}

// Kernels before 5.14 have no cgroup.kill, and some machines no freezer.
func TestEndWithoutCgroupKill(t *testing.T) {
	t.Parallel()
	own := ownGroups()
	delete(own, "")
	for _, without := range []string{"", "freezer"} {
		delete(own, without)
		tree := find(own)
		if tree.Level() == Rlimit {
			t.Skip("this machine has no hierarchy of version 1")
		}
		if (tree.v1["freezer"] == "") != (without == "freezer") {
			t.Fatalf("without %q: the freezer is at %q", without, tree.v1["freezer"])
		}
		for _, c := range escapes {
			g := newGroup(t, tree, sandbox.Limits{Processes: 256})
			mustLaunch(t, g, c.script)
			waitFor(t, g, c.least)
			if err := g.End(); err != nil {
				t.Errorf("%s, without %q: %v", c.name, without, err)
			}
		}
		t.Cleanup(func() { must.Check(t, tree.Close()) })
	}
}

// A process ID in a list of members may be reused before the kill.
func TestSignalSparesOthers(t *testing.T) {
	t.Parallel()
	p := must.Get(os.StartProcess("/bin/sleep", []string{"sleep", "3600"}, &os.ProcAttr{}))(t)
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	dir := t.TempDir()
	g := None().group(filepath.Base(dir))
	g.dirs["pids"] = dir
	must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(some([]int{p.Pid})), 0o600))
	g.Kill()
	fd := must.Get(unix.PidfdOpen(p.Pid, 0))(t)
	defer unix.Close(fd)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100); n != 0 && err == nil {
		t.Error("a process outside of the group was killed")
	}
}

func TestShortList(t *testing.T) {
	t.Parallel()
	if got := some([]int{1, 2, 3, 4, 5, 6, 7}); got != "1 2 3 4 5 ..." {
		t.Errorf("%q", got)
	}
}
