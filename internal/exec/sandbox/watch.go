package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// The intervals of probes. While the sandbox works, the interval is probeEvery. While it does
// not work, the interval starts at probeBroken and doubles with each probe up to probeEvery.
const (
	probeEvery  = 5 * time.Minute
	probeBroken = 5 * time.Second
)

// Watch runs programs in the chosen backend and keeps its status current, because the
// capabilities of the machine may change. It is safe for concurrent use.
type Watch struct {
	Backend
	low    Isolation
	log    *slog.Logger
	failed chan struct{}

	mu     sync.Mutex
	status Status
}

// Watch starts to track the status of the chosen backend; see Follow.
func (c Choice) Watch(log *slog.Logger) *Watch {
	return &Watch{Backend: c.Backend, low: c.low, log: log, failed: make(chan struct{}, 1), status: c.Status}
}

// Status returns the result of the last probe.
func (w *Watch) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Run runs a program in the backend. If the sandbox cannot be built, it requests a probe
// immediately.
func (w *Watch) Run(ctx context.Context, s Spec) (Report, error) {
	r, err := w.Backend.Run(ctx, s)
	if reason.Of(err) == reason.SandboxUnavailable {
		w.log.WarnContext(ctx, "building a sandbox failed", attributes(reason.Known(err, reason.SandboxUnavailable))...)
		select {
		case w.failed <- struct{}{}:
		default: // a probe is already requested
		}
	}
	return r, err
}

// Follow probes the backend until ctx ends: periodically, more often while the backend does not
// work, and immediately after a call could not build a sandbox.
func (w *Watch) Follow(ctx context.Context) error {
	wait := w.next(probeBroken)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-w.failed:
			timer.Stop()
		case <-timer.C:
		}
		w.probe(ctx)
		wait = w.next(min(2*wait, probeEvery))
	}
}

// next returns the time until the next probe: broken while the backend does not work, and
// probeEvery while it does.
func (w *Watch) next(broken time.Duration) time.Duration {
	if w.Status().Available {
		return probeEvery
	}
	return broken
}

func (w *Watch) probe(ctx context.Context) {
	found := w.Backend.Probe(ctx).within(w.low)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	before := w.status
	w.status = found
	w.mu.Unlock()
	switch {
	case !found.Available && (before.Available || before.Problem != found.Problem):
		w.log.WarnContext(ctx, "programs cannot run: sandboxes fail", attributes(&reason.Error{
			Message: found.Problem, Remedy: found.Remedy, Fields: map[string]string{fieldLayer: found.Layer, fieldFile: found.File},
		})...)
	case found.Available && !before.Available:
		w.log.InfoContext(ctx, "programs can run again: sandboxes work", slog.String("rung", string(found.Rung)))
	}
}

func attributes(why *reason.Error) []any {
	return []any{
		slog.String("problem", why.Message), slog.String("layer", why.Fields[fieldLayer]),
		slog.String("file", why.Fields[fieldFile]), slog.String("remedy", why.NextStep()),
	}
}
