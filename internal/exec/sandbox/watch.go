package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

const (
	// probeEvery is the interval of probes while they succeed.
	probeEvery = 5 * time.Minute
	// retryFirst and retrySlowest are the first and the longest interval of a Backoff.
	retryFirst   = 5 * time.Second
	retrySlowest = time.Minute
	// statusWithin limits a probe for a caller that waits for the status.
	statusWithin = 10 * time.Second
)

// Backoff returns the intervals between attempts that fail: 5 s, then twice as long after each
// attempt, up to a minute. Its zero value is ready to use.
type Backoff struct{ next time.Duration }

// Next returns the next interval.
func (b *Backoff) Next() time.Duration {
	wait := max(b.next, retryFirst)
	b.next = min(2*wait, retrySlowest)
	return wait
}

// Watch runs programs in the chosen backend and keeps its status current, because the
// capabilities of the machine may change. It is safe for concurrent use.
type Watch struct {
	Backend
	low    Isolation
	log    *slog.Logger
	failed chan struct{}
	// probing serializes the probes.
	probing sync.Mutex

	mu     sync.Mutex
	status Status
}

// Watch starts to track the status of the chosen backend; see Follow.
func (c Choice) Watch(log *slog.Logger) *Watch {
	return &Watch{Backend: c.Backend, low: c.low, log: log, failed: make(chan struct{}, 1), status: c.Status}
}

// Status returns the result of the last probe that did not fail for a passing reason. If every
// probe so far failed for a passing reason, Status probes again, so that no call is refused
// because of an earlier shortage.
func (w *Watch) Status() Status {
	if st := w.last(); !st.Passing {
		return st
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusWithin)
	defer cancel()
	w.probing.Lock()
	defer w.probing.Unlock()
	if w.last().Passing { // no concurrent call has measured it
		w.probe(ctx)
	}
	return w.last()
}

func (w *Watch) last() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Run runs a program in the backend. If the sandbox cannot be built, it requests a probe
// immediately, unless the reason is a passing one, which fails only this call.
func (w *Watch) Run(ctx context.Context, s Spec) (Report, error) {
	r, err := w.Backend.Run(ctx, s)
	if reason.Of(err) == reason.SandboxUnavailable {
		w.log.WarnContext(ctx, "building a sandbox failed", attributes(reason.Known(err, reason.SandboxUnavailable))...)
		if Passing(err) {
			return r, err
		}
		select {
		case w.failed <- struct{}{}:
		default: // a probe is already requested
		}
	}
	return r, err
}

// Follow probes the backend until ctx ends: periodically, more often while probes fail, and
// immediately after a call could not build a sandbox.
func (w *Watch) Follow(ctx context.Context) error {
	works, broken := w.last().Available, Backoff{}
	for {
		wait := probeEvery
		if works {
			broken = Backoff{}
		} else {
			wait = broken.Next()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-w.failed:
			timer.Stop()
		case <-timer.C:
		}
		w.probing.Lock()
		works = w.probe(ctx)
		w.probing.Unlock()
	}
}

// probe updates the status and reports whether sandboxes work. A probe that failed for a passing
// reason does not replace a measured status. The caller MUST hold probing.
func (w *Watch) probe(ctx context.Context) bool {
	found := w.Backend.Probe(ctx).within(w.low)
	if ctx.Err() != nil {
		return false
	}
	w.mu.Lock()
	before := w.status
	if !found.Passing || before.Passing {
		w.status = found
	}
	w.mu.Unlock()
	switch {
	case found.Passing:
		w.log.WarnContext(ctx, "a probe could not build a sandbox; programs may run again at any time", attributes(found.refusal())...)
	case !found.Available && (before.Available || before.Problem != found.Problem):
		w.log.WarnContext(ctx, "programs cannot run: sandboxes fail", attributes(found.refusal())...)
	case found.Available && !before.Available:
		w.log.InfoContext(ctx, "programs can run again: sandboxes work", slog.String("rung", string(found.Rung)))
	}
	return found.Available
}

// refusal returns the problem of a status as an error.
func (s Status) refusal() *reason.Error {
	return &reason.Error{Message: s.Problem, Remedy: s.Remedy, Fields: map[string]string{fieldLayer: s.Layer, fieldFile: s.File}}
}

func attributes(why *reason.Error) []any {
	return []any{
		slog.String("problem", why.Message), slog.String("layer", why.Fields[fieldLayer]),
		slog.String("file", why.Fields[fieldFile]), slog.String("remedy", why.NextStep()),
	}
}
