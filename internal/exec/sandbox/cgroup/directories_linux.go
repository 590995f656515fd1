package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"palyra/internal/exec/sandbox"
)

// directories are the control groups of one run, or of all runs together, in each hierarchy.
type directories struct {
	// level is the level of the Tree.
	level string
	// name is the name of each directory.
	name string
	// dirs maps a v1 controller, and "" for the unified hierarchy, to the directory.
	dirs map[string]string
}

// add creates one directory. Controllers that are mounted together share it.
func (d directories) add(controller, parent string) error {
	dir := filepath.Join(parent, d.name)
	if !slices.Contains(d.distinct(), dir) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	d.dirs[controller] = dir
	return nil
}

// distinct returns the directories of the group, each once.
func (d directories) distinct() []string {
	var list []string
	for _, dir := range d.dirs {
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// bound sets the limits of one run.
func (d directories) bound(limits sandbox.Limits) error {
	memory, processes := strconv.FormatInt(limits.Memory, 10), strconv.Itoa(limits.Processes)
	switch d.level {
	case V2:
		return errors.Join(
			writeFile(d.path("", "memory.max"), memory),
			writeIfThere(d.path("", "memory.swap.max"), "0"),
			writeIfThere(d.path("", "memory.oom.group"), "1"),
			writeFile(d.path("", "pids.max"), processes))
	case V1:
		return errors.Join(
			writeFile(d.path("memory", "memory.limit_in_bytes"), memory),
			writeIfThere(d.path("memory", "memory.memsw.limit_in_bytes"), memory),
			writeFile(d.path("pids", "pids.max"), processes))
	}
	return nil
}

// boundAll sets the limits of a group that has others below it.
func (d directories) boundAll(share sandbox.Share) error {
	var failed error
	if d.level == V2 && !delegates(d.dirs[""]) {
		failed = errors.New("its controllers cannot be delegated")
	}
	memory, swap := d.path(d.limiting("memory"), "memory.max"), ""
	if d.level == V1 {
		memory, swap = d.path("memory", "memory.limit_in_bytes"), d.path("memory", "memory.memsw.limit_in_bytes")
		// Linux before 5.11 counts subgroups only with this setting.
		failed = writeIfThere(d.path("memory", "memory.use_hierarchy"), "1")
	}
	if share.Memory > 0 {
		value := strconv.FormatInt(share.Memory, 10)
		failed = errors.Join(failed, writeFile(memory, value))
		if swap != "" {
			failed = errors.Join(failed, writeIfThere(swap, value))
		}
	}
	if share.Processes > 0 {
		failed = errors.Join(failed, writeFile(d.path(d.limiting("pids"), "pids.max"), strconv.Itoa(share.Processes)))
	}
	return failed
}

func (d directories) path(controller, file string) string {
	return filepath.Join(d.dirs[controller], file)
}

func (d directories) read(controller, file string) string {
	if d.dirs[controller] == "" {
		return ""
	}
	return readFile(d.path(controller, file))
}

// limiting returns the directory with the limit files of a controller.
func (d directories) limiting(controller string) string {
	if d.level == V2 {
		return ""
	}
	return controller
}
