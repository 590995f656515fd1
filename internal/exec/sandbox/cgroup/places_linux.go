package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/origin"
)

// ownGroups maps each v1 controller, and "" for the unified hierarchy, to the directory of the
// daemon's own group.
func ownGroups() map[string]string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	own := ownGroupsFrom(string(mounts), string(groups))
	for controller, dir := range own {
		own[controller] = aboveRuns(dir, origin.Mark())
	}
	return own
}

// aboveRuns returns the group of a daemon, given the group of its first thread, which
// /proc/self/cgroup reports. Any thread, including the first, can be in the group of a run while
// the thread starts a program there.
func aboveRuns(dir, mark string) string {
	above, _, _ := strings.Cut(dir, "/"+prefix+mark+"-")
	return above
}

func ownGroupsFrom(mounts, groups string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(groups) {
		// hierarchy-id:controllers:path
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			paths[controller] = parts[2]
		}
	}
	out := map[string]string{}
	for line := range strings.Lines(mounts) {
		root, point, controllers, ok := cgroupMount(line)
		if !ok {
			continue
		}
		for _, controller := range controllers {
			if path, ok := paths[controller]; ok && out[controller] == "" {
				out[controller] = inMount(point, root, path)
			}
		}
	}
	return out
}

// cgroupMount parses a line of mountinfo (proc_pid_mountinfo(5)).
func cgroupMount(line string) (root, point string, controllers []string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	fields, tail := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < 5 || len(tail) < 3 {
		return "", "", nil, false
	}
	switch tail[0] {
	case "cgroup2":
		return fields[3], fields[4], []string{""}, true
	case "cgroup":
		return fields[3], fields[4], strings.Split(tail[2], ","), true
	}
	return "", "", nil, false
}

// inMount joins a group's path to the mount point of its hierarchy. For a path that is not
// below the mount's root (a container's view), it returns the mount point.
func inMount(point, root, path string) string {
	if root == "/" {
		root = ""
	}
	rest, ok := strings.CutPrefix(path, root)
	if !ok || rest != "" && rest[0] != '/' || slices.Contains(strings.Split(rest, "/"), "..") {
		return point
	}
	return filepath.Join(point, rest)
}

// unifiedCandidates returns the daemon's own group, and in two cases its parent, because a
// group with processes cannot pass on controllers. The parent is a candidate if it is the
// systemd unit (DelegateSubgroup=), or if own is the daemon's leaf (Settle). The daemon MUST
// NOT write to a slice above these groups, even if it is root.
func unifiedCandidates(own string) []string {
	if own == "" {
		return nil
	}
	candidates := []string{own}
	unit := filepath.Dir(own)
	if ext := filepath.Ext(unit); ext == ".service" || ext == ".scope" || filepath.Base(own) == leafName {
		candidates = append(candidates, unit)
	}
	return candidates
}

// delegates reports whether groups below dir have the controllers memory and pids. It enables
// the controllers if they are available.
func delegates(dir string) bool {
	if handsDown(dir, limiters...) {
		return true
	}
	if !offers(dir, limiters...) || writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids") != nil {
		return false
	}
	return handsDown(dir, limiters...)
}

// isGroup reports whether dir is a group, and not the directory above the root of a hierarchy.
func isGroup(dir string) bool { return exists(filepath.Join(dir, "cgroup.procs")) }

func exists(name string) bool { return unix.Access(name, unix.F_OK) == nil }
