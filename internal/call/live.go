package call

import (
	"bytes"
	"context"
	"sync"
)

// Live is a call under way as those see it who follow it, also from later on.
type Live struct {
	mu     sync.Mutex
	events []Event
	// output counts the bytes of output so far.
	output int
	// changed is closed when an event is added or the call ends; nil while nobody
	// waits for that.
	changed chan struct{}
	ended   bool
	outcome Outcome
	err     error
}

// NewLive returns a call of which nothing has happened yet.
func NewLive() *Live { return new(Live) }

// mostOutput bounds the output that a live call remembers, in bytes. Output is
// provisional: what is passed over is in the result.
const mostOutput = 1 << 20

// Add remembers an event for followers.
func (l *Live) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Output != nil {
		if l.output += len(e.Output.Data); l.output > mostOutput {
			return
		}
		// The tool may use its buffer again.
		e.Output = &Chunk{Stream: e.Output.Stream, Data: bytes.Clone(e.Output.Data)}
	}
	l.events = append(l.events, e)
	l.wake()
}

// End says how the call ended.
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

// Since returns the events but the first so many, and whether the call has ended.
func (l *Live) Since(seen int) (events []Event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[seen:], l.ended
}

// Follow passes the events on, from the first one, until the call ends or ctx does.
// It reports whether the call ended, and then how.
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
