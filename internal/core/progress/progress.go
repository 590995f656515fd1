// Package progress says how far a long work is. Who does the work counts; who
// began it may watch. The meter travels with the context, so that what lies between
// the two need not know of it.
package progress

import (
	"context"
	"sync/atomic"
	"time"
)

// Patience is how long nothing is said of a work.
const Patience = 2 * time.Second

// Count is how far a work is, in things of one kind. Total is 0 while nobody knows
// it.
type Count struct{ Done, Total int64 }

// Meter counts. The zero value is ready, and nil counts nothing. It is safe for
// concurrent use.
type Meter struct{ done, total atomic.Int64 }

// Expect says how many there are in all, and that none is done.
func (m *Meter) Expect(total int64) {
	if m != nil {
		m.done.Store(0)
		m.total.Store(total)
	}
}

// Add counts n more that are done.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.done.Add(n)
	}
}

// Count returns how far the work is.
func (m *Meter) Count() Count {
	if m == nil {
		return Count{}
	}
	return Count{Done: m.done.Load(), Total: m.total.Load()}
}

type key struct{}

// With has those who work under ctx count with m.
func With(ctx context.Context, m *Meter) context.Context { return context.WithValue(ctx, key{}, m) }

// From returns the meter of ctx; nil when nobody watches.
func From(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}

// Watch calls tell once Patience is over, and again after every interval, until
// stop is called, which waits for the last tell.
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
