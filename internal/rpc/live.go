package rpc

import (
	"context"
	"sync"

	"palyra/internal/reason"
)

// liveRequests are the requests under way, by the device that made them, so
// that a revoked device keeps no stream.
type liveRequests struct {
	mu       sync.Mutex
	byDevice map[string]map[int]context.CancelCauseFunc
	next     int
}

// enter registers a request of a device; leave must be called when it ended.
func (l *liveRequests) enter(ctx context.Context, device string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byDevice == nil {
		l.byDevice = make(map[string]map[int]context.CancelCauseFunc)
	}
	if l.byDevice[device] == nil {
		l.byDevice[device] = make(map[int]context.CancelCauseFunc)
	}
	id := l.next
	l.next++
	l.byDevice[device][id] = cancel
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.byDevice[device], id); len(l.byDevice[device]) == 0 {
			delete(l.byDevice, device)
		}
	}
}

// end ends the requests of a device and returns how many there were.
func (l *liveRequests) end(device string, why error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cancel := range l.byDevice[device] {
		cancel(why)
	}
	return len(l.byDevice[device])
}

// cut returns why the gateway itself ended a request, nil when it did not.
func cut(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	switch cause := context.Cause(ctx); reason.Of(cause) {
	case reason.Unauthenticated, reason.ShuttingDown:
		return cause
	default:
		return nil
	}
}
