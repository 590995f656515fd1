package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
)

// Group is the set of control groups of one run. At level Rlimit the set may be empty, and the
// Group then has no effect. Watch and Kill may be called concurrently with the other methods.
// The other methods must be called from one goroutine.
type Group struct {
	directories
	Counters Counters

	tree   *Tree
	limits sandbox.Limits
	dir    *os.File
	// below are groups that Sweep found below the groups in dirs, the deepest first.
	below []string
}

// group returns a Group without directories.
func (t *Tree) group(name string) *Group {
	d := directories{level: t.level, name: name, dirs: map[string]string{}}
	return &Group{directories: d, Counters: Counters{d}, tree: t}
}

func (g *Group) mkdir() error {
	for controller, place := range g.tree.v1 {
		if err := g.add(controller, place); err != nil {
			return err
		}
	}
	if g.tree.v2 == "" {
		return nil
	}
	if err := g.add("", g.tree.v2); err != nil {
		return err
	}
	f, err := os.Open(g.dirs[""])
	g.dir = f
	return err
}

// Name returns the name of the directories, "palyra-<pid>-<start time>-<n>".
func (g *Group) Name() string { return g.name }

// Dir returns the group of the unified hierarchy for CLONE_INTO_CGROUP (clone(2),
// syscall.SysProcAttr.CgroupFD). It is nil on other hierarchies. The Group owns the file.
func (g *Group) Dir() *os.File { return g.dir }

// Enter moves the calling thread into the groups of version 1, so that its child processes
// start there. For the unified hierarchy, callers use Dir. The caller MUST keep the thread
// locked (runtime.LockOSThread) until it has called Leave. If Enter fails it calls Leave
// itself. The caller MUST then treat the thread as after an error of Leave, because the result
// of that call is unknown.
//
// A single thread moves in microseconds. Moving a whole process, through cgroup.procs, waits for
// an RCU grace period in each hierarchy: tens of milliseconds on a busy machine.
func (g *Group) Enter() error {
	for _, dir := range g.distinct() {
		if dir == g.dirs[""] {
			continue
		}
		if err := writeFile(filepath.Join(dir, "tasks"), "0"); err != nil {
			return errors.Join(fmt.Errorf("entering a control group: %w", err), g.Leave())
		}
	}
	return nil
}

// Leave moves the calling thread back into the daemon's own groups. After an error the thread is
// in a group that will be killed: its goroutine must end without unlocking it, which ends the
// thread.
func (g *Group) Leave() error {
	var failed error
	for _, fd := range g.tree.home {
		if _, err := retry(func() (int, error) { return unix.Write(fd, []byte("0")) }); err != nil {
			failed = errors.Join(failed, fmt.Errorf("leaving a control group: %w", err))
		}
	}
	return failed
}

// Holds reports whether a process is in every group of the run. It is false if the run has no
// group.
func (g *Group) Holds(pid int) bool {
	for controller := range g.dirs {
		if !slices.Contains(pids(g.read(controller, "cgroup.procs")), pid) {
			return false
		}
	}
	return len(g.dirs) > 0
}

// Close removes the groups. Every process must have ended; see End.
func (g *Group) Close() error {
	g.tree.crowd.remove(g)
	var failed error
	for _, dir := range g.distinct() {
		failed = errors.Join(failed, removeDir(dir))
	}
	if g.dir != nil {
		failed = errors.Join(failed, g.dir.Close())
		g.dir = nil
	}
	return failed
}
