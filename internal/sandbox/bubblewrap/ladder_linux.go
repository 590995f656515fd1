package bubblewrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The levels of the ladder, best first.
const (
	levelV2     = "cgroup_v2"
	levelV1     = "cgroup_v1"
	levelRlimit = "rlimit"
)

// ladder is how control groups can be made on this machine: below the
// daemon's own group, so that what bounds the daemon bounds its sandboxes.
type ladder struct {
	level string
	// v2 is where a group of the unified hierarchy can be made, "" for
	// nowhere. At levelV1 it only serves to kill.
	v2 string
	// v1 maps a controller to where a group of its hierarchy can be made.
	v1 map[string]string
}

// v1Controllers are those in use; memory and pids make the level. The freezer
// only serves to kill, where cgroup.kill is not to be had.
var v1Controllers = []string{"memory", "pids", "cpuacct", "freezer"}

// findLadder tries, by making and removing a group, and does not go by user.
func findLadder() ladder {
	l := ladder{level: levelRlimit, v1: map[string]string{}}
	places, err := ownGroups()
	if err != nil {
		return l
	}
	for _, controller := range v1Controllers {
		if dir := places[controller]; dir != "" && canMake(dir) {
			l.v1[controller] = dir
		}
	}
	for _, dir := range unifiedCandidates(places[""]) {
		if !isGroup(dir) || !canMake(dir) {
			continue
		}
		if l.v2 == "" {
			l.v2 = dir
		}
		if delegates(dir) {
			return ladder{level: levelV2, v2: dir}
		}
	}
	if l.v2 != "" {
		delete(l.v1, "freezer")
	}
	if l.v1["memory"] != "" && l.v1["pids"] != "" {
		l.level = levelV1
	}
	return l
}

// unifiedCandidates are the own group and, as a group with processes cannot
// hand controllers down, the systemd unit around it (DelegateSubgroup=). A
// slice above that is not the daemon's to write in, even when it is root.
func unifiedCandidates(own string) []string {
	if own == "" {
		return nil
	}
	candidates := []string{own}
	switch unit := filepath.Dir(own); filepath.Ext(unit) {
	case ".service", ".scope":
		candidates = append(candidates, unit)
	}
	return candidates
}

// delegates reports whether groups below dir get memory and pids; it asks for
// them when they are to be had.
func delegates(dir string) bool {
	control := filepath.Join(dir, "cgroup.subtree_control")
	has := func() bool {
		text, err := os.ReadFile(control)
		words := strings.Fields(string(text))
		return err == nil && slices.Contains(words, "memory") && slices.Contains(words, "pids")
	}
	if has() {
		return true
	}
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	words := strings.Fields(string(available))
	if err != nil || !slices.Contains(words, "memory") || !slices.Contains(words, "pids") {
		return false
	}
	if os.WriteFile(control, []byte("+memory +pids"), 0) != nil {
		return false
	}
	return has()
}

// isGroup tells a group from the directory above the root of a hierarchy.
func isGroup(dir string) bool { return exists(filepath.Join(dir, "cgroup.procs")) }

func canMake(dir string) bool {
	probe := filepath.Join(dir, fmt.Sprintf("%sprobe-%d", groupPrefix, os.Getpid()))
	if err := os.Mkdir(probe, 0o755); err != nil {
		return false
	}
	return os.Remove(probe) == nil
}

// ownGroups maps each v1 controller, and "" for the unified hierarchy, to the
// directory of the daemon's own group (cgroups(7)).
func ownGroups() (map[string]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return ownGroupsFrom(string(mounts), string(groups)), nil
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

// inMount joins a group's path to where its hierarchy is mounted. A path that
// is not below the mount's root (a container's view) means the mount itself.
func inMount(point, root, path string) string {
	if root == "/" {
		root = ""
	}
	rest, ok := strings.CutPrefix(path, root)
	if !ok || strings.Contains(rest, "..") {
		return point
	}
	return filepath.Join(point, rest)
}
