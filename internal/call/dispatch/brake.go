package dispatch

import (
	"context"
	"sync"

	"palyra/internal/core/reason"
)

var errFrozen = reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")

// brake cancels running calls and prevents new ones from starting.
type brake struct {
	mu     sync.Mutex
	frozen bool
	// running holds the cancel functions of calls in flight, by arrival.
	running map[int]context.CancelCauseFunc
	next    int
}

// enter registers a call; release must be called at its end.
func (b *brake) enter(ctx context.Context) (context.Context, func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frozen {
		return nil, nil, errFrozen
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if b.running == nil {
		b.running = make(map[int]context.CancelCauseFunc)
	}
	id := b.next
	b.next++
	b.running[id] = cancel
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.running, id)
		cancel(nil)
	}, nil
}

// Freeze prevents new calls from starting and cancels the running ones. It returns the number
// of cancelled calls.
func (r *Router) Freeze() int {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	r.brake.frozen = true
	for _, cancel := range r.brake.running {
		cancel(errFrozen)
	}
	return len(r.brake.running)
}

// Thaw permits calls to start again.
func (r *Router) Thaw() {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	r.brake.frozen = false
}

// InFlight counts the calls that run now.
func (r *Router) InFlight() int {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	return len(r.brake.running)
}
