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
	// endWait is how long the kernel gets to end the processes, and then to
	// release their groups. Each takes a few milliseconds, more only on a machine
	// that is badly overloaded.
	endWait = 20 * time.Second
	// firstWait and longestWait bound the time until End looks again by itself.
	// It cannot rely on notifications of cgroup.events, since the kernel sends at
	// most one in 10 ms. Once the wait is longestWait, End kills again by every
	// means.
	firstWait, longestWait = 50 * time.Microsecond, 5 * time.Millisecond
)

// Kill ends every process of the groups; End makes sure of it.
func (g *Group) Kill() { g.kill() }

// kill reports whether it took one atomic step, cgroup.kill. Where there is
// none, freezing first keeps a fork from outrunning the signals; without that
// it takes several rounds.
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

// signal kills a process that is still in the group when there is a hold on
// it: its number may be another's by now.
func (g *Group) signal(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	if inGroup(readFile(fmt.Sprintf("/proc/%d/cgroup", pid)), g.name) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// inGroup reports whether a process with this /proc/pid/cgroup is in a group
// of that name, or below one.
func inGroup(text, name string) bool {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[2], "/"), name) {
			return true
		}
	}
	return false
}

// End kills until no process is left. It waits in ppoll(2) and not on Go's
// timers, which are too coarse for waits of a fraction of a millisecond; the
// calling thread is blocked meanwhile.
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
		readAll(events) // what has been read is not told again
		if left = g.members(); len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the run %s are still there: %s", g.name, some(left))
		}
		if !atomic || wait == longestWait {
			g.kill()
			g.killEach()
		}
		pause := unix.NsecToTimespec(int64(wait))
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, &pause, nil)
	}
}

// openEvents returns a descriptor by which the kernel tells that a group is
// empty, -1 where there is none.
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

// some names a few processes for a message.
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

// members are the processes in any of the groups, each once.
func (g *Group) members() []int {
	var list []int
	for _, dir := range slices.Concat(g.below, g.distinct()) {
		list = append(list, pids(readFile(dir+"/cgroup.procs"))...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
