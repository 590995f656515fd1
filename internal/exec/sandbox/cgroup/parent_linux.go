package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra/internal/exec/sandbox"
)

const (
	// startRoom is the number of processes that a starting run needs. If fewer are left, the run
	// with the most processes is ended. startRoom is at most 1/startPart of the share.
	startRoom, startPart = 64, 8
	// roomWait is how long a starting run waits for the end of another one.
	roomWait, roomPause = 5 * time.Second, 5 * time.Millisecond
)

// Bound puts every later run below one group with these limits, so that all runs together leave
// enough resources to the daemon. At level Rlimit it does nothing.
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

// crowded reports whether all runs together have so many processes that another run could not
// start.
func (t *Tree) crowded() bool {
	if t.parent == nil || t.share.Processes == 0 {
		return false
	}
	return t.parent.Counters.processes() > t.full()
}

// full is the maximum number of processes of all runs at which another run can start.
func (t *Tree) full() int { return t.share.Processes - min(startRoom, t.share.Processes/startPart) }

// awaitRoom waits for the end of the run that exhausts the processes, with a timeout.
func (t *Tree) awaitRoom() {
	for deadline := time.Now().Add(roomWait); t.crowded() && time.Now().Before(deadline); {
		time.Sleep(roomPause)
	}
}

// ends reports whether this run must end because all runs together have too many processes.
func (t *Tree) ends(g *Group) bool { return t.crowded() && t.crowd.ends(g, t.full()) }

// crowd is the set of runs of a Tree.
type crowd struct {
	mu   sync.Mutex
	runs []*Group
	// ending is the run that was selected to end; no other run is selected until it has ended.
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

// ends reports whether the run g must end. It selects the run with the most processes.
// If no run ended, forks of a starting run would be refused, and two runs within their limits
// could exclude all others. Processes that have exited but were not reaped (zombies) count for no
// run.
func (c *crowd) ends(g *Group, full int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending != nil {
		return c.ending == g
	}
	var largest *Group
	most, all := 0, 0
	for _, run := range c.runs {
		n := run.Counters.processes()
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
