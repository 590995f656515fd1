package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"palyra/internal/egress"
)

// budget is the remaining budget of all connections of a proxy.
type budget struct {
	connections, requests allowance
	out, in               allowance
	// time is how long one connection may last.
	time time.Duration
}

func newBudget(b egress.Budget) *budget {
	b = b.OrDefault()
	left := &budget{time: b.Time}
	left.connections.giveBack(int64(b.Connections))
	left.requests.giveBack(int64(b.Requests))
	left.out.giveBack(b.BytesOut)
	left.in.giveBack(b.BytesIn)
	return left
}

// allowance is a number that several connections use up.
type allowance struct{ left atomic.Int64 }

// take takes n, or nothing if less is left.
func (a *allowance) take(n int64) bool {
	for {
		left := a.left.Load()
		if left < n {
			return false
		}
		if a.left.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

// takeSome takes at most most, and leaves enough for other callers.
func (a *allowance) takeSome(most int64) int64 {
	n := min(most, a.left.Load()/16)
	if n <= 0 || !a.take(n) {
		return 0
	}
	return n
}

func (a *allowance) giveBack(n int64) { a.left.Add(n) }

// spent reports whether the allowance is used up.
func (a *allowance) spent() bool { return a.left.Load() <= 0 }

// semaphore limits concurrency. It holds one element for each acquired place.
type semaphore chan struct{}

// acquire takes a place, and waits up to wait for one.
func (p semaphore) acquire(ctx context.Context, wait time.Duration) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
	}
	if wait == 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (p semaphore) release() { <-p }
