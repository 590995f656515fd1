package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// availableMemory returns the memory in GiB that new programs can use; see proc(5).
func availableMemory() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 4
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err == nil {
				return kib >> 20
			}
		}
	}
	return 4
}

// loadAverage returns the load of the last minute, or "" if it is not available.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// adoptOrphans makes this process the parent of descendants whose own parent ends, so
// that all of them are found when the run ends.
func adoptOrphans() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("becoming the parent of orphans: %w", errno)
	}
	return nil
}

// descendants returns the processes that this one started, directly or not.
func descendants() []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[int]int{}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The name of the program, in parentheses, may contain any character.
		after := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(after) < 2 || after[0] == "Z" {
			continue
		}
		if parents[pid], err = strconv.Atoi(after[1]); err != nil {
			delete(parents, pid)
		}
	}
	var found []int
	for pid := range parents {
		for up, ok := pid, true; ok; up, ok = parents[up] {
			if up == os.Getpid() && pid != up {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// groupRoots is the mount directory of control groups of both versions.
const groupRoots = "/sys/fs/cgroup"

// controlGroups returns the directories of control groups that palyrad or its tests created.
func controlGroups() map[string]bool {
	found := map[string]bool{}
	_ = filepath.WalkDir(groupRoots, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a group that went away is none that is left
		}
		if strings.HasPrefix(d.Name(), "palyra") {
			found[name] = true
		}
		return nil
	})
	return found
}

// isInUse reports whether a control group belongs to a running gateway, for example of another
// checkout: its name is "palyra-<pid>-<start time>-<n>".
func isInUse(name string) bool {
	parts := strings.Split(filepath.Base(name), "-")
	if len(parts) < 2 {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	return err == nil && syscall.Kill(pid, 0) == nil
}

// leftovers is the state before a run, so that only the run's own leftovers are removed.
type leftovers struct {
	groups map[string]bool
	dir    string
}

func before(dir string) leftovers { return leftovers{groups: controlGroups(), dir: dir} }

// remove ends all processes that the run started, unmounts the mounts below its directory, and
// removes its control groups and temporary files. It returns an error that names everything
// that remains.
func (l leftovers) remove() error {
	var failures []error
	// Processes can start others while they are killed, so the search is repeated.
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range 500 {
		for _, pid := range descendants() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if reap() {
			break
		}
		<-look.C
	}
	if left := descendants(); len(left) > 0 {
		failures = append(failures, fmt.Errorf("processes %v did not end", left))
	}
	for range 2 { // mounts can be nested
		for _, point := range mountsBelow(l.dir) {
			_ = syscall.Unmount(point, syscall.MNT_DETACH)
		}
	}
	for name := range controlGroups() {
		if !l.groups[name] && !isInUse(name) {
			removeGroup(name)
		}
	}
	for name := range controlGroups() {
		if !l.groups[name] && !isInUse(name) {
			failures = append(failures, fmt.Errorf("the control group %s is still there", name))
		}
	}
	_ = filepath.WalkDir(l.dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) //nolint:gosec // folders that tests locked must be removable
		}
		return nil
	})
	return errors.Join(append(failures, os.RemoveAll(l.dir))...)
}

// reap collects the exit states of children, and reports whether no child remains.
func reap() (none bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			return true
		}
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return false
		}
	}
}

// mountsBelow returns the mount points at or below a folder, the innermost first.
func mountsBelow(dir string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 {
			point := strings.ReplaceAll(fields[4], `\040`, " ")
			if point == dir || strings.HasPrefix(point, dir+"/") {
				points = append([]string{point}, points...)
			}
		}
	}
	return points
}

// removeGroup removes a control group and its subgroups. The kernel refuses to remove a group with
// processes.
func removeGroup(name string) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(name, e.Name()))
		}
	}
	_ = syscall.Rmdir(name)
}

func owner(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf(" %d:%d", s.Uid, s.Gid)
	}
	return ""
}

func deviceOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Rdev)
	}
	return 0
}
