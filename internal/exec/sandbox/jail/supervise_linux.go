package jail

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/sandbox/output"
	"palyra/internal/exec/sandbox/seccomp"
	"palyra/internal/exec/sandbox/seccomp/notify"
	"palyra/internal/exec/sandbox/supervise"
)

// causeOf converts the end of the run into the cause for its proxy session.
func causeOf(end supervise.Ending) error {
	if end.ByItself() {
		return proxy.ErrEnded
	}
	return context.Canceled
}

// supervise waits for the first process to end, and stops the run when ctx ends, the deadline
// passes or a limit is reached. It returns after the process was reaped and the goroutines that
// attend and watch the run have ended.
func (c *Cell) supervise(ctx context.Context, w Work, o *order, streams *output.Reading) (supervise.Ending, *os.ProcessState) {
	attended := make(chan error, 1)
	go func() { attended <- c.attend(ctx, w, o) }()
	exceeded, unwatch := c.watch(ctx)
	defer unwatch()
	end, state := supervise.Run{
		Wall: w.Spec.Limits.Wall, Output: streams, Ended: c.Processes.ended, Kill: c.Processes.kill,
		Attended: attended, Exceeded: exceeded, Broken: c.session.served, Repair: c.session.cancel,
		Hurry: func() {
			// By now the other end of the socket is closed, unless a process inside still holds
			// it. Earlier messages can still be read.
			_ = c.control.SetReadDeadline(time.Now().Add(patience))
		},
	}.Wait(ctx)
	c.Processes.reaped = true
	return end, state
}

// watch starts the monitors of the run's limits. The channel receives the exceeded limit. The
// monitors end with ctx. unwatch also ends them, and waits for them.
func (c *Cell) watch(ctx context.Context) (exceeded <-chan sandbox.Quota, unwatch func()) {
	ctx, cancel := context.WithCancel(ctx)
	watches := []func(context.Context) sandbox.Quota{c.group.Watch}
	if c.disk != nil {
		watches = append(watches, c.disk.Watch)
	}
	if c.memory = c.weigh(); c.memory != nil {
		watches = append(watches, c.memory.Watch)
	}
	found := make(chan sandbox.Quota, len(watches))
	var running sync.WaitGroup
	for _, watch := range watches {
		running.Go(func() {
			if quota := watch(ctx); quota != "" {
				found <- quota
			}
		})
	}
	return found, func() { cancel(); running.Wait() }
}

// measureDisk starts to measure the disk writes of a run.
func (c *Cell) measureDisk() (err error) {
	if c.machine.state == nil || c.plan.mode() == sandbox.ReadOnly {
		return nil
	}
	var upper *os.File
	if c.plan.Layer != nil {
		upper = c.plan.Layer.Upper()
	}
	program := disk.Program{Processes: func() []int { return descendants(c.Processes.first.Pid) }, Dir: c.plan.Spec.Inner.Dir}
	c.disk, err = disk.NewMeter(upper, c.machine.state, program, c.plan.Limits)
	return err
}

// overDisk reports whether the run exceeded its disk limits. It measures once more, because a
// short run may end before the first measurement.
func (c *Cell) overDisk() bool { return c.disk != nil && c.disk.Ended(context.Background()) }

// callMonitor answers the system calls that the filter of a run passes to its listener, and records
// them. Without a listener it does nothing.
type callMonitor struct {
	listener *os.File
	observed chan observation
}

type observation struct {
	log notify.Log
	err error
}

// start takes ownership of the listener.
func (m *callMonitor) start(listener int, table seccomp.Table) error {
	f, err := notify.Open(listener)
	if err != nil {
		return err
	}
	m.listener, m.observed = f, make(chan observation, 1)
	go func() {
		log, err := notify.Serve(f, table)
		// No call may wait for an answer after Serve has returned.
		f.Close()
		m.observed <- observation{log, err}
	}()
	return nil
}

// end returns the denied system calls of a run without remaining processes.
func (m *callMonitor) end() (notify.Log, error) {
	if m.listener == nil {
		return notify.Log{}, nil
	}
	m.listener.Close()
	m.listener = nil
	o := <-m.observed
	if o.err != nil {
		return o.log, fmt.Errorf("answering denied system calls: %w", o.err)
	}
	return o.log, nil
}
