package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// deadline ends a call that has run for too long. It is paused while the call waits for
// approvals.
type deadline struct {
	expire func()

	mu    sync.Mutex
	timer *time.Timer
	// left is the remaining time when the clock was last started, at started.
	left    time.Duration
	started time.Time
	// waits counts the waits that are under way.
	waits int
}

// withDeadline starts the clock of a call. The context ends as one of
// context.WithTimeout does; end stops the clock and releases it.
func withDeadline(parent context.Context, limit time.Duration) (ctx context.Context, d *deadline, end func()) {
	inner, cancel := context.WithCancelCause(parent)
	d = &deadline{expire: func() { cancel(context.DeadlineExceeded) }, left: limit, started: time.Now()}
	d.timer = time.AfterFunc(limit, d.expire)
	timed := &timedContext{inner, make(chan struct{})}
	ended := func() { close(timed.done) }
	stop := context.AfterFunc(inner, ended)
	return timed, d, func() {
		d.timer.Stop()
		early := stop() // true if ended has not run: no goroutine is needed
		if cancel(nil); early {
			ended()
		}
	}
}

// wait pauses the clock until resume is called. An expired deadline stays expired.
func (d *deadline) wait() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits++; d.waits == 1 {
		d.timer.Stop()
		d.left -= time.Since(d.started)
	}
	return d.resume
}

func (d *deadline) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits--; d.waits == 0 {
		d.started = time.Now()
		d.timer.Reset(d.left)
	}
}

// timedContext reports that a call exceeded its time. Example: a call may take 10 s, and runs
// for 12. Err is context.DeadlineExceeded, and the attestation has TIMED_OUT. A context of
// context.WithCancelCause would return context.Canceled. net/http, os/exec and the runners
// interpret this error as a disconnected client, and the attestation would have CANCELLED. A
// context of context.WithTimeout does not work either: its clock continues while approvals are
// pending.
type timedContext struct {
	context.Context
	// done is its own channel. Package context looks up the innermost context of its own types,
	// which it identifies by its channel, and would use that context's error:
	// context.WithTimeout(timed, time.Minute).Err() would be context.Canceled again.
	done chan struct{}
}

// Done is closed when the context ends.
func (c *timedContext) Done() <-chan struct{} { return c.done }

// Err returns context.DeadlineExceeded if the time was exceeded.
func (c *timedContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// AfterFunc saves one goroutine for each context derived from this one; package context detects
// the method.
func (c *timedContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }
