// Package supervise waits for the program of a run to end, and stops it when the deadline passes,
// a limit is reached or the call is cancelled. All backends share it; each passes a Run with its
// method of killing the program and its other causes for an end.
package supervise

import (
	"context"
	"errors"
	"os"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/output"
)

// lookEvery is the interval of calls of Run.Look.
const lookEvery = 25 * time.Millisecond

// Ending is the reason why a run was stopped; the first cause is kept. The zero value means that
// the program ended by itself.
type Ending struct {
	TimedOut, Cancelled bool
	Quota               sandbox.Quota
	// Err is a refusal, or a failure of the program's surroundings.
	Err error
}

// ByItself reports whether the program ended without being stopped.
func (e Ending) ByItself() bool { return e == Ending{} }

// Run is a backend's description of one run for Wait. Ended, Output, Wall and Kill are required.
type Run struct {
	Wall   time.Duration
	Output *output.Reading
	// Ended receives the state of the first process after it was reaped.
	Ended <-chan *os.ProcessState
	// Kill ends all existing processes. It may be called several times.
	Kill func()

	// Attended receives the result of the start: nil, or the reason why the program never started.
	// If Wait has not received it when the first process ends, Wait calls Hurry and then receives
	// it. Hurry ensures that this does not take long.
	Attended <-chan error
	Hurry    func()
	// Broken receives a failure of the program's surroundings; Repair is called with it.
	Broken <-chan error
	Repair func(error)
	// Exceeded receives exceeded limits that the operating system reports.
	Exceeded <-chan sandbox.Quota
	// Look returns the currently exceeded limit, "" for none.
	Look func() sandbox.Quota
}

// Wait returns when the first process has ended and Attended, if any, has been received.
func (r Run) Wait(ctx context.Context) (end Ending, state *os.ProcessState) {
	deadline := time.NewTimer(r.Wall)
	defer deadline.Stop()
	var look <-chan time.Time
	if r.Look != nil {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	stop := func(why Ending) {
		if end.ByItself() {
			end = why
		}
		r.Kill()
	}
	cancelled, flooded, attended, broken := ctx.Done(), r.Output.Flooded(), r.Attended, r.Broken
	for reaped := false; !reaped; {
		select {
		case <-cancelled:
			cancelled = nil
			late := errors.Is(ctx.Err(), context.DeadlineExceeded)
			stop(Ending{TimedOut: late, Cancelled: !late})
		case <-deadline.C:
			stop(Ending{TimedOut: true})
		case <-flooded:
			flooded = nil
			stop(Ending{Quota: sandbox.QuotaOutput})
		case quota := <-r.Exceeded:
			stop(Ending{Quota: quota})
		case <-look:
			if quota := r.Look(); quota != "" {
				stop(Ending{Quota: quota})
			}
		case err := <-broken:
			broken = nil
			r.Repair(err)
			stop(Ending{Err: err})
		case err := <-attended:
			attended = nil
			if err != nil {
				stop(Ending{Err: err})
			}
		case state = <-r.Ended:
			reaped = true
		}
	}
	if attended != nil {
		r.Hurry()
		if err := <-attended; err != nil && end.ByItself() {
			end.Err = err
		}
	}
	return end, state
}
