package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/origin"
)

// deepest is the maximum depth of the search for groups below a run's group. The program of a run
// cannot create groups, but a process that received access could.
const deepest = 16

// Sweep ends and removes the remains of a dead daemon: it kills the remaining processes and
// removes the groups with their subgroups. It keeps the groups of living daemons. It also keeps
// groups with processes of an invisible pid namespace, because the state of their daemon is
// unknown. An ordinary user keeps the groups of other users, which it cannot remove.
func (t *Tree) Sweep(ctx context.Context) error { return t.sweepFor(ctx, os.Geteuid()) }

func (t *Tree) sweepFor(ctx context.Context, uid int) error {
	var failed error
	for _, g := range t.orphans() {
		if err := ctx.Err(); err != nil {
			return errors.Join(failed, err)
		}
		if g.foreign() || uid != 0 && !ownedBy(uid, g.distinct()) {
			continue
		}
		failed = errors.Join(failed, g.End())
		for _, dir := range slices.Concat(g.below, g.distinct()) {
			failed = errors.Join(failed, removeDir(dir))
		}
	}
	return failed
}

// orphans returns the groups of dead daemons by name.
func (t *Tree) orphans() map[string]*Group {
	found := map[string]*Group{}
	for _, p := range t.sweepDirs {
		entries, err := os.ReadDir(p.dir)
		if err != nil {
			continue // a directory that existed at Find and was removed holds no groups
		}
		for _, entry := range entries {
			name := entry.Name()
			if !entry.IsDir() || !orphaned(name) {
				continue
			}
			if found[name] == nil {
				found[name] = t.group(name)
			}
			dir := filepath.Join(p.dir, name)
			found[name].dirs[p.controller] = dir
			found[name].below = append(found[name].below, below(dir, deepest)...)
		}
	}
	return found
}

// foreign reports whether the group contains a process of an invisible pid namespace.
func (g *Group) foreign() bool {
	for _, dir := range slices.Concat(g.below, g.distinct()) {
		if slices.Contains(strings.Fields(readFile(filepath.Join(dir, "cgroup.procs"))), "0") {
			return true
		}
	}
	return false
}

// ownedBy reports whether a user owns all of the directories.
func ownedBy(uid int, dirs []string) bool {
	return !slices.ContainsFunc(dirs, func(dir string) bool {
		var st unix.Stat_t
		return unix.Lstat(dir, &st) == nil && int(st.Uid) != uid
	})
}

// below lists the groups below dir, the deepest first.
func below(dir string, depth int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return nil
	}
	var list []string
	for _, entry := range entries {
		if entry.IsDir() {
			child := filepath.Join(dir, entry.Name())
			list = append(append(list, below(child, depth-1)...), child)
		}
	}
	return list
}

// orphaned reports whether a name belongs to a run whose daemon is dead.
func orphaned(name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	end := strings.LastIndexByte(rest, '-')
	return ok && end > 0 && origin.Orphaned(rest[:end])
}
