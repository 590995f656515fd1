package cgroup

import (
	"context"
	"runtime"
	"time"

	"palyra/internal/exec/sandbox"
)

const (
	// tick is the minimum interval between two reads of monotonic counters.
	tick = 25 * time.Millisecond
	// maxCPUInterval is the maximum interval between two reads of the processor time, because a
	// program may use processors that this process cannot.
	maxCPUInterval = time.Second
	// pollInterval is the polling interval of counters without notifications.
	pollInterval = 100 * time.Millisecond
	// settle is the delay before reading counters again after a notification: the kernel notifies
	// about exhausted memory before it has killed a process.
	settle = time.Millisecond
)

// Watch waits until the run must be stopped for a limit and returns that limit. It returns ""
// when ctx ends.
//
// Memory: the kernel has killed a process of the run. The others would continue without it, with
// unreliable results.
//
// Processes: more forks were refused than the run may have processes. A single refusal does not
// end the run: the program receives EAGAIN, as it would in a service or a container, and may wait
// and continue. A program that keeps trying is a fork bomb and would only use processor time
// until its deadline.
//
// Processes of all runs: the runs together have nearly the maximum number of processes, so that no
// other run could start. The run with the most processes is ended.
//
// Processor time: the processes of the run together have used up their limit.
//
// The kernel notifies about memory and processes (with control groups of version 1, only about
// memory). Processor time is read at the earliest time at which it can be used up: with 2 s left
// on 4 processors, after 0.5 s.
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
			next = min(next, pollInterval)
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

// untilCPU returns the minimum time until the processor time can be used up. The result is
// between tick and maxCPUInterval; 0 means never.
func (g *Group) untilCPU() time.Duration {
	if len(g.dirs) == 0 {
		return 0
	}
	left := (g.limits.CPU - g.Counters.CPU()) / time.Duration(runtime.NumCPU())
	return min(max(left, tick), maxCPUInterval)
}

// exceeded returns the limit for which a run must be stopped, "" for none.
func (g *Group) exceeded() sandbox.Quota {
	switch {
	case g.Counters.killedForMemory():
		return sandbox.QuotaMemory
	case g.Counters.RefusedProcesses() > int64(g.limits.Processes):
		return sandbox.QuotaProcesses
	case g.Counters.CPU() > g.limits.CPU:
		return sandbox.QuotaCPU
	case g.tree.ends(g):
		return sandbox.QuotaProcesses
	}
	return ""
}

// Verdict returns the limit that caused the end of a run that was not stopped, "" for none.
// failed reports that its program did not succeed: a program that succeeded despite a refused
// fork did not end because of it.
func (g *Group) Verdict(failed bool) sandbox.Quota {
	quota := g.exceeded()
	switch {
	case quota == sandbox.QuotaMemory || failed && quota != "":
		return quota
	case failed && g.Counters.RefusedProcesses() > 0:
		return sandbox.QuotaProcesses
	}
	return ""
}
