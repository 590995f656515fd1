// Package supervise waits for the program of a run to end, and stops it when the
// deadline passes, a limit is reached or the call is cancelled. All backends share
// it; each passes in a Run how its program is killed and what else can end it.
package supervise

import (
	"context"
	"errors"
	"os"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/output"
)

// lookEvery is how often Run.Look is called.
const lookEvery = 25 * time.Millisecond

// Ending is why a run was stopped; the first cause counts. The zero value means
// that the program ended by itself.
type Ending struct {
	TimedOut, Cancelled bool
	Quota               sandbox.Quota
	// Err is a refusal, or what broke down around the program.
	Err error
}

// ByItself reports whether nothing stopped the program.
func (e Ending) ByItself() bool { return e == Ending{} }

// Run is one run as its backend describes it to Wait. Ended, Output, Wall and Kill
// are required.
type Run struct {
	Wall   time.Duration
	Output *output.Reading
	// Ended gets the state of the first process once it is reaped.
	Ended <-chan *os.ProcessState
	// Kill ends all processes that there are. It may be called several times.
	Kill func()

	// Attended gets how the start went: nil, or why the program never started.
	// It is waited for after the end of the first process; Hurry, which is called
	// then, sees to it that this does not take long.
	Attended <-chan error
	Hurry    func()
	// Broken gets what broke down around the program; Repair is called with it.
	Broken <-chan error
	Repair func(error)
	// Exceeded gets limits whose excess the operating system notifies of.
	Exceeded <-chan sandbox.Quota
	// Look says which limit is exceeded now, "" for none.
	Look func() sandbox.Quota
}

// Wait returns when the first process has ended and Attended, if any, has been
// received.
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
