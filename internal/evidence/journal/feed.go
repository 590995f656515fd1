package journal

import (
	"context"
	"slices"
	"sync"

	"palyra/internal/core/reason"
)

// The maximum number of recent events in a Feed. Followers that keep up read them instead of
// the store.
const (
	feedEvents = 1024
	feedBytes  = 4 << 20
)

// Feed notifies followers of new durable events. The writer publishes to it after a commit; there
// is no polling. It is safe for concurrent use.
type Feed struct {
	mu     sync.Mutex
	head   Head
	recent []Event // consecutive, ends at head
	bytes  int
	waits  []wait
	closed bool
}

// wait is a waiter for a head past after.
type wait struct {
	after int64
	wake  chan struct{} // closed when the head is past after
}

// NewFeed returns a feed of an empty journal.
func NewFeed() *Feed { return &Feed{} }

// Publish makes head visible. fresh has all events between the previous head and this one, for
// Recent. If it is empty, followers read the events from the store.
func (f *Feed) Publish(head Head, fresh []Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(fresh) == 0 || (len(f.recent) > 0 && f.head.Seq+1 != fresh[0].Seq) {
		f.recent, f.bytes = nil, 0
	}
	f.head = head
	f.recent = append(f.recent, fresh...)
	for i := range fresh {
		f.bytes += len(fresh[i].Payload)
	}
	f.trim()
	f.broadcast()
}

// trim drops the oldest events. The slice first grows to twice its bound, so that dropping
// costs little per event.
func (f *Feed) trim() {
	if len(f.recent) < 2*feedEvents && f.bytes < 2*feedBytes {
		return
	}
	drop := max(len(f.recent)-feedEvents, 0)
	for i := range f.recent {
		if i >= drop && f.bytes <= feedBytes {
			break
		}
		f.bytes -= len(f.recent[i].Payload)
		drop = max(drop, i+1)
	}
	f.recent = slices.Delete(f.recent, 0, drop)
}

// broadcast wakes the waiters whose condition is met. A waiter for many events, such as the
// checkpointer, is not woken for each.
func (f *Feed) broadcast() {
	f.waits = slices.DeleteFunc(f.waits, func(w wait) bool {
		over := f.closed || f.head.Seq > w.after
		if over {
			close(w.wake)
		}
		return over
	})
}

// Close wakes all waiters; their Wait returns reason.ShuttingDown.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.broadcast()
}

// Head returns the newest durable head.
func (f *Feed) Head() Head {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head
}

// Wait returns when the head is past after, or with ctx's error.
func (f *Feed) Wait(ctx context.Context, after int64) error {
	for {
		wake, err := f.waiter(after)
		if wake == nil {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			f.leave(wake)
			return ctx.Err()
		}
	}
}

// waiter returns a channel to wait on. The channel is nil if no wait is necessary; the error is
// then the result.
func (f *Feed) waiter(after int64) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.head.Seq > after:
		return nil, nil
	case f.closed:
		return nil, reason.Errorf(reason.ShuttingDown, "the journal is closed")
	}
	w := wait{after, make(chan struct{})}
	f.waits = append(f.waits, w)
	return w.wake, nil
}

// leave removes a wait.
func (f *Feed) leave(wake <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = slices.DeleteFunc(f.waits, func(w wait) bool { return w.wake == wake })
}

// Recent returns the events after a sequence number if the feed still has all
// of them.
func (f *Feed) Recent(after int64) ([]Event, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recent) == 0 || after+1 < f.recent[0].Seq || after > f.head.Seq {
		return nil, false
	}
	return slices.Clone(f.recent[after+1-f.recent[0].Seq:]), true
}
