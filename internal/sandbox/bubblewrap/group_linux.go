package bubblewrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox"
)

// groupPrefix begins the name of every control group of a run. The name goes
// on with the daemon's pid and start time, so that a later daemon can tell
// leftovers from the groups of a neighbour.
const groupPrefix = "palyra-"

// group is the control groups of one run; at levelRlimit it is empty.
type group struct {
	name string
	// dirs maps a v1 controller, and "" for the unified hierarchy, to the
	// directory of the run.
	dirs map[string]string
	// limits is true when the unified group carries the limits.
	limits bool
}

// start makes the groups of a run. The groups are complete or the run fails.
func (l ladder) start(name string, limits sandbox.Limits) (*group, error) {
	g := &group{name: name, dirs: map[string]string{}, limits: l.level == levelV2}
	places := map[string]string{}
	for controller, dir := range l.v1 {
		places[controller] = dir
	}
	if l.v2 != "" {
		places[""] = l.v2
	}
	made := map[string]bool{}
	for controller, place := range places {
		dir := filepath.Join(place, name)
		if !made[dir] {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, errors.Join(fmt.Errorf("making a control group: %w", err), g.remove())
			}
			made[dir] = true
		}
		g.dirs[controller] = dir
	}
	if err := g.bound(limits); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the limits of a control group: %w", err), g.remove())
	}
	return g, nil
}

func (g *group) bound(limits sandbox.Limits) error {
	memory, processes := strconv.FormatInt(limits.Memory, 10), strconv.Itoa(limits.Processes)
	if g.limits {
		return errors.Join(
			g.write("", "memory.max", memory),
			g.writeIfThere("", "memory.swap.max", "0"),
			g.writeIfThere("", "memory.oom.group", "1"),
			g.write("", "pids.max", processes))
	}
	if g.dirs["memory"] == "" || g.dirs["pids"] == "" {
		return nil
	}
	return errors.Join(
		g.write("memory", "memory.limit_in_bytes", memory),
		g.writeIfThere("memory", "memory.memsw.limit_in_bytes", memory),
		g.write("pids", "pids.max", processes))
}

func (g *group) path(controller, file string) string {
	return filepath.Join(g.dirs[controller], file)
}

func (g *group) write(controller, file, value string) error {
	return os.WriteFile(g.path(controller, file), []byte(value), 0)
}

func (g *group) writeIfThere(controller, file, value string) error {
	if err := g.write(controller, file, value); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func (g *group) read(controller, file string) string {
	if g.dirs[controller] == "" {
		return ""
	}
	text, err := os.ReadFile(g.path(controller, file))
	if err != nil {
		return ""
	}
	return string(text)
}

// number reads a file that holds one number; 0 when it cannot.
func (g *group) number(controller, file string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(g.read(controller, file)), 10, 64)
	return n
}

// keyed reads one value of a file with "key value" lines.
func (g *group) keyed(controller, file, key string) int64 {
	for line := range strings.Lines(g.read(controller, file)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// joins opens the files by which the outer stage moves its one thread that
// counts into the v1 groups, before anything forks. Moving a whole process,
// through cgroup.procs, waits for an RCU grace period in each hierarchy: tens
// of milliseconds on a busy machine.
func (g *group) joins() ([]*os.File, error) {
	var files []*os.File
	seen := map[string]bool{}
	for controller, dir := range g.dirs {
		if controller == "" || seen[dir] {
			continue
		}
		seen[dir] = true
		f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("opening a control group: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// holds reports whether a process is in every group of the run.
func (g *group) holds(pid int) bool {
	want := strconv.Itoa(pid)
	for controller := range g.dirs {
		found := false
		for line := range strings.Lines(g.read(controller, "cgroup.procs")) {
			found = found || strings.TrimSpace(line) == want
		}
		if !found {
			return false
		}
	}
	return len(g.dirs) > 0
}

// kill ends every process of the groups. cgroup.kill is one atomic step; where
// there is none, freezing first keeps a fork from outrunning the signals.
func (g *group) kill() {
	if g.dirs[""] != "" && g.write("", "cgroup.kill", "1") == nil {
		return
	}
	frozen := g.dirs["freezer"] != "" && g.write("freezer", "freezer.state", "FROZEN") == nil
	for _, pid := range g.members() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if frozen {
		_ = g.write("freezer", "freezer.state", "THAWED")
	}
}

func (g *group) members() []int {
	var pids []int
	seen := map[int]bool{}
	for controller := range g.dirs {
		for line := range strings.Lines(g.read(controller, "cgroup.procs")) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// cpu is the processor time of the whole run, 0 when no group counts it.
func (g *group) cpu() time.Duration {
	if g.dirs["cpuacct"] != "" {
		return time.Duration(g.number("cpuacct", "cpuacct.usage"))
	}
	return time.Duration(g.keyed("", "cpu.stat", "usage_usec")) * time.Microsecond
}

func (g *group) peakMemory() int64 {
	if g.limits {
		return g.number("", "memory.peak")
	}
	return g.number("memory", "memory.max_usage_in_bytes")
}

// peakProcesses is 0 on kernels that do not keep it.
func (g *group) peakProcesses() int {
	if g.limits {
		return int(g.number("", "pids.peak"))
	}
	return int(g.number("pids", "pids.peak"))
}

// exceeded names the limit that the kernel says was hit.
func (g *group) exceeded() sandbox.Quota {
	if g.limits {
		switch {
		case g.keyed("", "memory.events", "oom_kill") > 0:
			return sandbox.QuotaMemory
		case g.keyed("", "pids.events", "max") > 0:
			return sandbox.QuotaProcesses
		}
		return ""
	}
	switch {
	case g.keyed("memory", "memory.oom_control", "oom_kill") > 0:
		return sandbox.QuotaMemory
	case g.keyed("pids", "pids.events", "max") > 0:
		return sandbox.QuotaProcesses
	}
	return ""
}

// remove deletes the groups. The kernel lets go of a dead process a moment
// after its parent has heard of it.
func (g *group) remove() error {
	var failed error
	for _, dir := range g.dirs {
		failed = errors.Join(failed, removeGroup(dir))
	}
	return failed
}

func removeGroup(dir string) error {
	var err error
	for wait := 100 * time.Microsecond; wait < 200*time.Millisecond; wait *= 2 {
		err = os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(wait)
	}
	return fmt.Errorf("removing a control group: %w", err)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
