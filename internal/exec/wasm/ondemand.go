package wasm

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
)

// OnDemand opens a Runner at its first use, and again while that fails, so that a shortage or a
// missing part at the start of palyrad refuses no later guest. It is safe for concurrent use.
type OnDemand struct {
	use   Config
	tierC func() sandbox.Runner

	mu      sync.Mutex
	runner  *Runner
	problem *reason.Error
	// again is the time of the next attempt after a problem that does not pass by itself.
	again   time.Time
	backoff sandbox.Backoff
	closed  bool
}

// NewOnDemand returns an OnDemand. tierC replaces the Sandbox of the configuration at each attempt;
// it returns nil while Tier C is not available.
func NewOnDemand(c Config, tierC func() sandbox.Runner) *OnDemand {
	return &OnDemand{use: c, tierC: tierC}
}

// Ready opens the Runner unless it is open. It returns the reason why no guest can run. It attempts
// again at every call after a passing failure, and with the intervals of sandbox.Backoff after
// another one.
func (d *OnDemand) Ready() error {
	_, err := d.open()
	return err
}

func (d *OnDemand) open() (*Runner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, closing()
	case d.runner != nil:
		return d.runner, nil
	case d.problem != nil && !sandbox.Passing(d.problem) && time.Now().Before(d.again):
		return nil, d.problem
	}
	c := d.use
	c.Sandbox = d.tierC()
	runner, err := Open(c)
	if err != nil {
		d.failed(reason.Known(err, reason.SandboxUnavailable))
		return nil, d.problem
	}
	if d.problem != nil {
		d.use.Log.Info("WebAssembly guests can run again")
	}
	d.runner, d.problem = runner, nil
	return runner, nil
}

// failed keeps the problem of an attempt, and logs it when it is another one than before.
func (d *OnDemand) failed(problem *reason.Error) {
	if d.problem == nil || d.problem.Message != problem.Message {
		d.use.Log.Info("WebAssembly guests cannot run", slog.String("problem", problem.Message), slog.String("remedy", problem.NextStep()))
	}
	d.problem, d.again = problem, time.Now().Add(d.backoff.Next())
}

// Run implements guest.Runner.
func (d *OnDemand) Run(ctx context.Context, c guest.Call) (sandbox.Report, error) {
	r, err := d.open()
	if err != nil {
		return sandbox.Report{}, err
	}
	return r.Run(ctx, c)
}

// Prepare is Runner.Prepare.
func (d *OnDemand) Prepare(ctx context.Context, m guest.Module) error {
	r, err := d.open()
	if err != nil {
		return err
	}
	return r.Prepare(ctx, m)
}

// Close closes the Runner. No further one is opened.
func (d *OnDemand) Close() {
	d.mu.Lock()
	d.closed = true
	r := d.runner
	d.runner = nil
	d.mu.Unlock()
	if r != nil {
		r.Close()
	}
}
