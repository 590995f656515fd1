package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/origin"
)

// prefix is the name prefix of every group; an origin.Mark and a number follow.
const prefix = "palyra-"

// attempts is the number of names tried for a new group, because another Tree of this process may
// use the same names.
const attempts = 10_000

// v1Controllers are the controllers in use; memory and pids determine the level. The freezer is
// used only for killing without cgroup.kill.
var v1Controllers = []string{"memory", "pids", "cpuacct", "freezer"}

// Tree creates control groups on this machine. It is safe for concurrent use; one Tree serves a
// whole daemon.
type Tree struct {
	level string
	// v2 is the parent directory for groups of the unified hierarchy, "" for none. At level V1 it
	// is used only for killing.
	v2 string
	// v1 maps a controller to the parent directory for groups of its hierarchy.
	v1 map[string]string
	// home are descriptors of the tasks files of the daemon's own v1 groups. They are opened at
	// the start, so that a thread can always return.
	home []int
	// sweepDirs are directories where an earlier daemon may have created groups.
	sweepDirs []groupDir
	mark      string
	last      atomic.Uint64
	// parent is the common group of all runs, nil before Bound.
	parent *Group
	share  sandbox.Share
	crowd  crowd
	// endWait is the timeout of End, 0 for the constant.
	endWait time.Duration
}

// groupDir is a directory of a hierarchy, "" for the unified one.
type groupDir struct{ controller, dir string }

// Find determines the capabilities of this machine by creating and removing groups; it does not
// rely on the user id. A machine without control groups is not an error: Level then returns
// Rlimit.
func Find() *Tree {
	return find(ownGroups())
}

// find implements Find for a daemon whose own groups are at these paths.
func find(own map[string]string) *Tree {
	t := None()
	kills := false
	for _, dir := range unifiedCandidates(own[""]) {
		if !isGroup(dir) {
			continue
		}
		t.sweepDirs = append(t.sweepDirs, groupDir{"", dir})
		made, canKill := t.try(dir, "cgroup.kill")
		if !made {
			continue
		}
		if t.v2 == "" {
			t.v2, kills = dir, canKill
		}
		if delegates(dir) {
			t.level, t.v2 = V2, dir
			return t
		}
	}
	for _, controller := range v1Controllers {
		if own[controller] == "" {
			continue
		}
		t.sweepDirs = append(t.sweepDirs, groupDir{controller, own[controller]})
		if controller != "freezer" || !kills {
			t.addV1(controller, own[controller])
		}
	}
	if t.v1["memory"] != "" && t.v1["pids"] != "" {
		t.level = V1
	}
	return t
}

// None returns a Tree that creates no groups: its level is Rlimit.
func None() *Tree {
	return &Tree{level: Rlimit, v1: map[string]string{}, mark: origin.Mark()}
}

// addV1 starts to use a hierarchy if groups can be created there and a thread can return from
// them. Some containers do not show the daemon's own group. dir is then another group, and a
// thread that "returns" to dir would not be in its original group.
func (t *Tree) addV1(controller, dir string) {
	if !slices.Contains(pids(readFile(filepath.Join(dir, "cgroup.procs"))), os.Getpid()) {
		return
	}
	if made, _ := t.try(dir, "tasks"); !made {
		return
	}
	home, err := retry(func() (int, error) {
		return unix.Open(filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return
	}
	t.v1[controller] = dir
	t.home = append(t.home, home)
}

// try creates and removes a group, and reports whether it had a file.
func (t *Tree) try(dir, file string) (made, has bool) {
	for n := range uint64(attempts) {
		probe := filepath.Join(dir, t.name(n))
		switch err := os.Mkdir(probe, 0o755); {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return false, false
		}
		has = exists(filepath.Join(probe, file))
		return removeDir(probe) == nil, has
	}
	return false, false
}

// Level returns the level: V2, V1 or Rlimit.
func (t *Tree) Level() string { return t.level }

// Close releases the daemon's own groups. No run may be in progress.
func (t *Tree) Close() error {
	var failed error
	if t.parent != nil {
		failed = t.parent.Close()
		t.parent = nil
	}
	for _, fd := range t.home {
		failed = errors.Join(failed, unix.Close(fd))
	}
	t.home = nil
	return failed
}

// Start returns the groups of one run with its limits set. If a group cannot be created, Start
// fails. At level Rlimit the run may have no groups.
//
// Groups are created for each run and removed after it, because the counters of a used group
// (pids.peak, the page cache of an earlier run) cannot be reset. Creating and removing the
// groups takes 0.1 ms.
func (t *Tree) Start(limits sandbox.Limits) (*Group, error) {
	t.awaitRoom()
	g, err := t.make()
	if err != nil {
		return nil, err
	}
	g.limits = limits.OrDefault()
	if err := g.bound(g.limits); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the limits of a control group: %w", err), g.Close())
	}
	t.crowd.add(g)
	return g, nil
}

func (t *Tree) make() (*Group, error) {
	var err error
	for range attempts {
		g := t.group(t.name(t.last.Add(1)))
		if err = g.mkdir(); err == nil {
			return g, nil
		}
		err = errors.Join(err, g.Close())
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return nil, fmt.Errorf("making a control group: %w", err)
}

func (t *Tree) name(n uint64) string { return fmt.Sprintf("%s%s-%d", prefix, t.mark, n) }

// removeDir removes a group and retries while it is busy. A dead process leaves its group some
// time after its parent has reaped it, when the kernel has scheduled it one last time. On a
// busy machine this takes longer.
func removeDir(dir string) error {
	deadline := time.Now().Add(endWait)
	for wait := firstWait; ; wait = min(wait*3/2, longestWait) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("removing the control group %s: %w", filepath.Base(dir), err)
		}
		time.Sleep(wait)
	}
}
