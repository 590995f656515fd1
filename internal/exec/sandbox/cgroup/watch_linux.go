package cgroup

import (
	"context"
	"runtime"
	"time"

	"palyra/internal/exec/sandbox"
)

const (
	// tick is the shortest time between two looks at counters that only grow.
	tick = 25 * time.Millisecond
	// lookAnyway bounds how long the processor time goes without a look: a
	// program may use processors that this process was not given.
	lookAnyway = time.Second
	// lookOften is how long counters go without a look of which the kernel does
	// not tell.
	lookOften = 100 * time.Millisecond
	// settle is when counters are looked at again after the kernel rang: it
	// tells of memory that has run out before it has killed for it.
	settle = time.Millisecond
)

// Watch waits until the run has to be stopped for a limit and names it. It
// returns "" when ctx is done.
//
// Memory: the kernel has killed a process of the run. The others would go on
// without it, with results that nobody can rely on.
//
// Processes: more forks were refused than the run may have processes. A single
// refusal does not end the run: the program sees EAGAIN, as it would in a service
// or a container, and may wait and go on. One that keeps trying is a fork bomb and
// would only burn time until its deadline.
//
// Processes of all runs: together they have nearly as many as all runs may have, so
// that no other could start. The one with the most is ended.
//
// Processor time: the processes together have used it up.
//
// The kernel notifies of memory and processes (with control groups of version 1,
// of memory alone). Processor time is read when it can have been used up at the
// earliest: with 2 s left on 4 processors, after 0.5 s.
func (g *Group) Watch(ctx context.Context) sandbox.Quota {
	notices := g.listen()
	defer notices.close()
	again := tick
	for ctx.Err() == nil {
		if quota := g.exceeded(); quota != "" {
			return quota
		}
		next := g.untilCPU()
		if !notices.complete {
			next = min(next, lookOften)
		}
		if again < tick {
			next = again
			again *= 2
		}
		if notices.wait(ctx, next) {
			again = settle
		}
	}
	return ""
}

// untilCPU is how long it takes at least until the processor time can be used
// up, within bounds; 0 means never.
func (g *Group) untilCPU() time.Duration {
	if len(g.dirs) == 0 {
		return 0
	}
	left := (g.limits.CPU - g.CPU()) / time.Duration(runtime.NumCPU())
	return min(max(left, tick), lookAnyway)
}

// exceeded names a limit for which a run is stopped.
func (g *Group) exceeded() sandbox.Quota {
	switch {
	case g.killedForMemory():
		return sandbox.QuotaMemory
	case g.refusedForks() > int64(g.limits.Processes):
		return sandbox.QuotaProcesses
	case g.CPU() > g.limits.CPU:
		return sandbox.QuotaCPU
	case g.tree.ends(g):
		return sandbox.QuotaProcesses
	}
	return ""
}

// Verdict names the limit because of which a run ended that nobody stopped, ""
// for none. failed says that its program did not succeed: a program that saw a
// refused fork and succeeded all the same did not end because of it.
func (g *Group) Verdict(failed bool) sandbox.Quota {
	quota := g.exceeded()
	switch {
	case quota == sandbox.QuotaMemory || failed && quota != "":
		return quota
	case failed && g.refusedForks() > 0:
		return sandbox.QuotaProcesses
	}
	return ""
}

func (g *Group) killedForMemory() bool {
	if g.tree.level == V2 {
		return keyed(g.read("", "memory.events"), "oom_kill") > 0
	}
	return keyed(g.read("memory", "memory.oom_control"), "oom_kill") > 0
}

func (g *Group) refusedForks() int64 {
	return keyed(g.read(g.limiting("pids"), "pids.events"), "max")
}
