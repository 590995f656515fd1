package cgroup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// endWait is the timeout for the kernel to end the processes, and then to release their
	// groups. Each takes a few milliseconds, longer only on a badly overloaded machine.
	endWait = 20 * time.Second
	// firstWait and longestWait limit the polling interval of End. End cannot rely on
	// notifications of cgroup.events, because the kernel sends at most one in 10 ms. When the
	// interval reaches longestWait, End kills again by every method.
	firstWait, longestWait = 50 * time.Microsecond, 5 * time.Millisecond
)

// Kill kills every process of the groups; End waits until they have ended.
func (g *Group) Kill() { g.kill() }

// kill kills the processes of the groups, and reports whether it used the atomic cgroup.kill.
// Without cgroup.kill, the freezer prevents new forks while signals are sent. Without the
// freezer, several rounds are needed.
func (g *Group) kill() (atomic bool) {
	if g.dirs[""] != "" && writeFile(g.path("", "cgroup.kill"), "1") == nil {
		return true
	}
	g.killEach()
	return false
}

func (g *Group) killEach() {
	frozen := g.dirs["freezer"] != "" && writeFile(g.path("freezer", "freezer.state"), "FROZEN") == nil
	for _, pid := range g.members() {
		g.signal(pid)
	}
	if frozen {
		_ = writeFile(g.path("freezer", "freezer.state"), "THAWED")
	}
}

// signal opens a pidfd and kills a process if it is still in the group, because its number may
// have been reused.
func (g *Group) signal(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // the process has exited
	}
	defer unix.Close(fd)
	if inGroup(readFile(fmt.Sprintf("/proc/%d/cgroup", pid)), g.name) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// inGroup reports whether a process with this /proc/pid/cgroup is in a group of that name, or
// below one.
func inGroup(text, name string) bool {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[2], "/"), name) {
			return true
		}
	}
	return false
}

// End kills until no process remains. It waits in ppoll(2), because Go's timers are too coarse
// for waits of a fraction of a millisecond. It blocks the calling thread.
func (g *Group) End() error {
	left := g.members()
	if len(left) == 0 {
		return nil
	}
	deadline := time.Now().Add(cmp.Or(g.tree.endWait, endWait))
	events := g.openEvents()
	defer unix.Close(events)
	atomic := g.kill()
	for wait := firstWait; ; wait = min(wait*3/2, longestWait) {
		readAll(events) // reading clears the pending notification
		if left = g.members(); len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the run %s still exist: %s", g.name, some(left))
		}
		if !atomic || wait == longestWait {
			g.kill()
			g.killEach()
		}
		pause := unix.NsecToTimespec(int64(wait))
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, &pause, nil)
	}
}

// openEvents returns a descriptor for notifications about an empty group, -1 if the kernel does
// not support them.
func (g *Group) openEvents() int {
	if g.dirs[""] == "" {
		return -1
	}
	fd, err := retry(func() (int, error) { return unix.Open(g.path("", "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1
	}
	return fd
}

// some formats the first few processes for a message.
func some(list []int) string {
	var b strings.Builder
	for i, pid := range list {
		if i == 5 {
			b.WriteString(" ...")
			break
		}
		b.WriteString(" " + strconv.Itoa(pid))
	}
	return b.String()[1:]
}

// members returns the processes in any of the groups, each once.
func (g *Group) members() []int {
	var list []int
	for _, dir := range slices.Concat(g.below, g.distinct()) {
		list = append(list, pids(readFile(dir+"/cgroup.procs"))...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
