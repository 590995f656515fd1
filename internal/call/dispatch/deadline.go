package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// deadline ends a call when it has run for too long. It stands still while the
// call waits for people.
type deadline struct {
	expire func()

	mu    sync.Mutex
	timer *time.Timer
	// left is what was left when the clock was last started, at started.
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
		early := stop() // and no goroutine is needed to say that it ended
		if cancel(nil); early {
			ended()
		}
	}
}

// wait stops the clock until resume is called. Time that is up stays up.
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

// timedContext says of a call that ran out of time that it did. Example: a call
// may take 10 s, and runs for 12. Err is context.DeadlineExceeded, and the
// attestation says TIMED_OUT. A context of context.WithCancelCause would answer
// context.Canceled, which net/http, os/exec and the runners take for a client
// that hung up, and the attestation would say CANCELLED. context.WithTimeout
// will not do either: its clock runs on while people are asked.
type timedContext struct {
	context.Context
	// done is a channel of its own. Package context looks behind a context for
	// one that it made itself, knows it by its channel, and would take the error
	// of that one: context.WithTimeout(timed, time.Minute).Err() would be
	// context.Canceled again.
	done chan struct{}
}

// Done is closed when the context ends.
func (c *timedContext) Done() <-chan struct{} { return c.done }

// Err is context.DeadlineExceeded when the time was up.
func (c *timedContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// AfterFunc spares contexts made of this one a goroutine each; package context
// looks for it.
func (c *timedContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }
