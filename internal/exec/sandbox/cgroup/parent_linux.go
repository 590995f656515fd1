package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"palyra/internal/exec/sandbox"
)

const (
	// startRoom is how many processes a run needs to start: when less of them is
	// left, the run with the most is ended. It is at most a part of the share.
	startRoom, startPart = 64, 8
	// roomWait is how long a run that starts waits for another one's end.
	roomWait, roomPause = 5 * time.Second, 5 * time.Millisecond
)

// Bound puts every run that starts from now on below one group that has these
// limits, so that all of them together leave the rest of what bounds the daemon to
// the daemon. At level Rlimit it does nothing.
func (t *Tree) Bound(share sandbox.Share) error {
	if t.level == Rlimit || t.parent != nil {
		return nil
	}
	parent, err := t.make()
	if err != nil {
		return err
	}
	if err := parent.boundAll(share); err != nil {
		return errors.Join(fmt.Errorf("setting the limits of all runs together: %w", err), parent.Close())
	}
	t.parent, t.share = parent, share
	for controller := range t.v1 {
		t.v1[controller] = parent.dirs[controller]
	}
	if t.v2 != "" {
		t.v2 = parent.dirs[""]
	}
	return nil
}

// boundAll sets the limits of a group that has others below it.
func (g *Group) boundAll(share sandbox.Share) error {
	var failed error
	if g.tree.level == V2 && !delegates(g.dirs[""]) {
		failed = errors.New("its controllers cannot be handed down")
	}
	memory, swap := g.path(g.limiting("memory"), "memory.max"), ""
	if g.tree.level == V1 {
		memory, swap = g.path("memory", "memory.limit_in_bytes"), g.path("memory", "memory.memsw.limit_in_bytes")
		// Linux before 5.11 does not count what is below unless it is told to.
		failed = writeIfThere(g.path("memory", "memory.use_hierarchy"), "1")
	}
	if share.Memory > 0 {
		value := strconv.FormatInt(share.Memory, 10)
		failed = errors.Join(failed, writeFile(memory, value))
		if swap != "" {
			failed = errors.Join(failed, writeIfThere(swap, value))
		}
	}
	if share.Processes > 0 {
		failed = errors.Join(failed, writeFile(g.path(g.limiting("pids"), "pids.max"), strconv.Itoa(share.Processes)))
	}
	return failed
}

// processes are those of a group and of all below it, threads included.
func (g *Group) processes() int {
	return int(number(g.read(g.limiting("pids"), "pids.current")))
}

// crowded reports whether all runs together have so many processes that another
// could not start.
func (t *Tree) crowded() bool {
	if t.parent == nil || t.share.Processes == 0 {
		return false
	}
	return t.parent.processes() > t.full()
}

// full is how many processes all runs may have while another could still start.
func (t *Tree) full() int { return t.share.Processes - min(startRoom, t.share.Processes/startPart) }

// awaitRoom waits a while for the end of the run because of which there is no room.
func (t *Tree) awaitRoom() {
	for deadline := time.Now().Add(roomWait); t.crowded() && time.Now().Before(deadline); {
		time.Sleep(roomPause)
	}
}

// ends reports whether this is the run that has to end because all of them
// together have too many processes.
func (t *Tree) ends(g *Group) bool { return t.crowded() && t.crowd.ends(g, t.full()) }

// crowd are the runs of a Tree.
type crowd struct {
	mu   sync.Mutex
	runs []*Group
	// ending is the one that has been told to end; no other is until it is gone.
	ending *Group
}

func (c *crowd) add(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, g)
}

func (c *crowd) remove(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = slices.DeleteFunc(c.runs, func(r *Group) bool { return r == g })
	if c.ending == g {
		c.ending = nil
	}
}

// ends reports whether a run is the one that ends: that with the most processes.
// Those of runs that are gone, of which nobody has taken note yet (zombies), are
// nobody's fault.
func (c *crowd) ends(g *Group, full int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending != nil {
		return c.ending == g
	}
	var largest *Group
	most, all := 0, 0
	for _, run := range c.runs {
		n := run.processes()
		all += n
		if n > most {
			largest, most = run, n
		}
	}
	if largest != g || all <= full {
		return false
	}
	c.ending = g
	return true
}
