package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sweep ends and removes what a daemon that died left behind: only control
// groups, as nothing else of a run has a name outside of it. Groups of daemons
// that are alive stay.
func (r *Runner) Sweep(ctx context.Context) error {
	places := map[string]bool{}
	for _, dir := range r.ladder.v1 {
		places[dir] = true
	}
	if r.ladder.v2 != "" {
		places[r.ladder.v2] = true
	}
	var failed error
	for dir := range places {
		entries, err := os.ReadDir(dir)
		failed = errors.Join(failed, err)
		for _, entry := range entries {
			if ctx.Err() != nil {
				return errors.Join(failed, ctx.Err())
			}
			if entry.IsDir() && orphaned(entry.Name()) {
				failed = errors.Join(failed, clear(filepath.Join(dir, entry.Name())))
			}
		}
	}
	return failed
}

func clear(dir string) error {
	g := &group{dirs: map[string]string{"": dir}}
	g.kill()
	return removeGroup(dir)
}

// orphaned reports whether a group's name is of a run whose daemon is gone.
func orphaned(name string) bool {
	rest, ok := strings.CutPrefix(name, groupPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 {
		return false
	}
	return startTime(pid) != parts[1]
}

// startTime is when a process started, in clock ticks since boot, "" when
// there is no such process (field 22 of proc_pid_stat(5)).
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field, a name in parentheses, may hold anything.
	end := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[end+1:]))
	const index = 22 - 3
	if len(fields) <= index {
		return ""
	}
	return fields[index]
}
