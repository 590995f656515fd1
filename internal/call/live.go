package call

import (
	"bytes"
	"context"
	"sync"
)

// Live holds the events of a call under way. Followers may join at any time.
type Live struct {
	mu     sync.Mutex
	events []Event
	// output counts the bytes of output so far.
	output int
	// changed is closed when an event is added or the call ends; nil while no follower waits.
	changed chan struct{}
	ended   bool
	outcome Outcome
	err     error
}

// NewLive returns a call without events.
func NewLive() *Live { return new(Live) }

// mostOutput bounds the output that a live call stores, in bytes. Output is provisional:
// dropped output is part of the result.
const mostOutput = 1 << 20

// Add stores an event for followers.
func (l *Live) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Output != nil {
		if l.output += len(e.Output.Data); l.output > mostOutput {
			return
		}
		// The tool may reuse its buffer.
		e.Output = &Chunk{Stream: e.Output.Stream, Data: bytes.Clone(e.Output.Data)}
	}
	l.events = append(l.events, e)
	l.wake()
}

// End sets the outcome of the call.
func (l *Live) End(o Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.outcome, l.err = true, o, err
	l.wake()
}

func (l *Live) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Since returns the events from index seen on, and whether the call has ended.
func (l *Live) Since(seen int) (events []Event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[seen:], l.ended
}

// Follow passes all events to observe, starting with the first, until the call or ctx ends. It
// reports whether the call ended, and its outcome.
func (l *Live) Follow(ctx context.Context, observe func(Event)) (o Outcome, ended bool, err error) {
	for seen := 0; ; {
		l.mu.Lock()
		if l.changed == nil && !l.ended {
			l.changed = make(chan struct{})
		}
		events, ended, changed := l.events[seen:], l.ended, l.changed
		l.mu.Unlock()
		for _, e := range events {
			observe(e)
		}
		seen += len(events)
		if ended {
			return l.outcome, true, l.err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Outcome{}, false, nil
		}
	}
}
