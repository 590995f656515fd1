// Package progress reports the progress of a long operation. The worker counts, and the initiator
// may observe. The meter is carried in the context, so that intermediate layers need no support for
// it.
package progress

import (
	"context"
	"sync/atomic"
	"time"
)

// Patience is how long an operation runs before Watch reports its progress.
const Patience = 2 * time.Second

// Count is the progress of an operation, in items of one kind. Total is 0 while it is unknown.
type Count struct{ Done, Total int64 }

// Meter counts completed items. The zero value is ready to use, and nil counts nothing. It is
// safe for concurrent use.
type Meter struct{ done, total atomic.Int64 }

// Expect sets the total and resets the count.
func (m *Meter) Expect(total int64) {
	if m != nil {
		m.done.Store(0)
		m.total.Store(total)
	}
}

// Add counts n more completed items.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.done.Add(n)
	}
}

// Count returns the current progress.
func (m *Meter) Count() Count {
	if m == nil {
		return Count{}
	}
	return Count{Done: m.done.Load(), Total: m.total.Load()}
}

type key struct{}

// With returns a context whose operations count with m.
func With(ctx context.Context, m *Meter) context.Context { return context.WithValue(ctx, key{}, m) }

// From returns the meter of ctx, or nil without an observer.
func From(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}

// Watch calls tell after Patience, and then at every interval, until stop is called. stop waits
// for a running call of tell.
func (m *Meter) Watch(interval time.Duration, tell func(Count)) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		next := time.NewTimer(Patience)
		defer next.Stop()
		for {
			select {
			case <-over:
				return
			case <-next.C:
				tell(m.Count())
				next.Reset(interval)
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
