package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"palyra/internal/egress/proxy"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/disk"
	"palyra/internal/sandbox/output"
	"palyra/internal/sandbox/seccomp/notify"
)

// ending is why a run was stopped; the first cause counts.
type ending struct {
	timedOut, cancelled bool
	quota               sandbox.Quota
	// err is a refusal: the program never started.
	err error
}

// cause is what the end of the run is to its session.
func (e ending) cause() error {
	if e == (ending{}) {
		return proxy.ErrEnded
	}
	return context.Canceled
}

// supervise waits for the first process to end, and stops the run when ctx ends,
// the deadline passes or a limit is reached. It returns when the process is reaped
// and the goroutines that attend and watch the run have ended.
func (c *Cell) supervise(ctx context.Context, w Work, o *order, streams *output.Reading) (end ending, state *os.ProcessState) {
	attended := make(chan error, 1)
	go func() { attended <- c.attend(ctx, w, o) }()
	exceeded, unwatch := c.watch(ctx)
	defer unwatch()
	deadline := time.NewTimer(w.Spec.Limits.Wall)
	defer deadline.Stop()

	stop := func(why ending) {
		if end == (ending{}) {
			end = why
		}
		c.kill()
	}
	cancelled, gate, served, flooded := ctx.Done(), (<-chan error)(attended), (<-chan error)(c.served), streams.Flooded()
	for !c.reaped {
		select {
		case <-cancelled:
			cancelled = nil
			late := errors.Is(ctx.Err(), context.DeadlineExceeded)
			stop(ending{timedOut: late, cancelled: !late})
		case <-deadline.C:
			stop(ending{timedOut: true})
		case <-flooded:
			flooded = nil
			stop(ending{quota: sandbox.QuotaOutput})
		case quota := <-exceeded:
			stop(ending{quota: quota})
		case err := <-served: // before its time
			served = nil
			c.stopServing(err)
			c.stopServing = nil
			stop(ending{err: err})
		case err := <-gate:
			gate = nil
			if err != nil {
				stop(ending{err: err})
			}
		case state = <-c.ended:
			c.reaped = true
		}
	}
	if gate != nil {
		// The socket has no other end now, unless something inside holds it. What
		// was said before is still to be read.
		_ = c.control.SetReadDeadline(time.Now().Add(patience))
		if err := <-gate; err != nil && end == (ending{}) {
			end.err = err
		}
	}
	return end, state
}

// watch starts those who notice that a run exceeds its limits; the channel gets
// which. They end with ctx, and when unwatch is called, which waits for them.
func (c *Cell) watch(ctx context.Context) (exceeded <-chan sandbox.Quota, unwatch func()) {
	ctx, cancel := context.WithCancel(ctx)
	watches := []func(context.Context) sandbox.Quota{c.group.Watch}
	if c.meter != nil {
		watches = append(watches, c.meter.Watch)
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

// measure begins to measure what a run writes to the disk.
func (c *Cell) measure() (err error) {
	if c.machine.state == nil || c.plan.Mode == sandbox.ReadOnly || c.plan.Mode == "" {
		return nil
	}
	var upper *os.File
	if c.plan.Layer != nil {
		upper = c.plan.Layer.Upper()
	}
	c.meter, err = disk.NewMeter(upper, c.machine.state, c.plan.Limits)
	return err
}

// overDisk looks once more: a short run may be over before anybody has.
func (c *Cell) overDisk() bool { return c.meter != nil && c.meter.Ended(context.Background()) }

// observe answers the calls that the filter asks about. What it saw is in
// violations.
func (c *Cell) observe(listener int) error {
	f, err := notify.Open(listener)
	if err != nil {
		return err
	}
	c.listener, c.observed = f, make(chan observation, 1)
	go func() {
		log, err := notify.Serve(f, c.machine.table)
		// A call that nobody answers must not wait.
		f.Close()
		c.observed <- observation{log, err}
	}()
	return nil
}

type observation struct {
	log notify.Log
	err error
}

// violations ends the observation of a run of which no process is left.
func (c *Cell) violations() (notify.Log, error) {
	if c.listener == nil {
		return notify.Log{}, nil
	}
	c.listener.Close()
	c.listener = nil
	o := <-c.observed
	if o.err != nil {
		return o.log, fmt.Errorf("answering denied system calls: %w", o.err)
	}
	return o.log, nil
}
