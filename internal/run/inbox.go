package run

import (
	"context"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// mostQueued bounds the messages that are queued for the model's next turn.
const mostQueued = 64

// mailbox queues users' messages to a run.
type mailbox struct {
	// keep makes a message durable, with its sender.
	keep func(ctx context.Context, by access.Caller, text string) error

	// ending is held for reading while a message is made durable, so that every accepted message
	// belongs to the run.
	ending sync.RWMutex
	closed bool

	mu    sync.Mutex
	queue []string
	// attached counts the open inboxes. lost counts the open inboxes whose clients disconnected.
	attached, lost int
	// once serializes messages with keys. said has the keys of the accepted messages.
	once sync.Mutex
	said map[saidKey]bool
	// changed has room for one wake-up of the run.
	changed chan struct{}
}

// saidKey is the key of a message, scoped to its caller.
type saidKey struct {
	by  access.Principal
	key string
}

func newMailbox(keep func(context.Context, access.Caller, string) error) *mailbox {
	return &mailbox{keep: keep, said: map[saidKey]bool{}, changed: make(chan struct{}, 1)}
}

// attach returns another inbox, which replaces the lost inboxes.
func (b *mailbox) attach(by access.Caller) *inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attached += 1 - b.lost
	b.lost = 0
	return &inbox{mailbox: b, by: by}
}

func (b *mailbox) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// say makes a message durable and queues it.
func (b *mailbox) say(ctx context.Context, by access.Caller, text string) error {
	b.ending.RLock()
	defer b.ending.RUnlock()
	if err := b.accept(ctx, by, text); err != nil {
		return err
	}
	b.mu.Lock()
	b.queue = append(b.queue, text)
	b.mu.Unlock()
	b.wake()
	return nil
}

// accept makes a message durable, or returns the reason for its refusal.
func (b *mailbox) accept(ctx context.Context, by access.Caller, content string) error {
	switch {
	case b.closed:
		return errEnded()
	case content == "":
		return reason.Errorf(reason.InvalidInput, "text is required").WithField("field", "text")
	case b.waiting() >= mostQueued:
		return reason.Errorf(reason.RateLimited, "the queue for the model's next turn is full: %s", text.Plural(mostQueued, "message")).
			WithRemedy("Wait for the model's next turn.")
	}
	return b.keep(ctx, by, content)
}

// post accepts a message of a client without an inbox. Unless the message is the last, the run
// then stays open as after a disconnect.
func (b *mailbox) post(ctx context.Context, by access.Caller, p Post) error {
	b.ending.RLock()
	defer b.ending.RUnlock()
	if b.closed {
		return errEnded()
	}
	if p.Key != "" {
		b.once.Lock()
		defer b.once.Unlock()
		if b.said[saidKey{by.Principal, p.Key}] {
			return nil
		}
	}
	// The last message may be empty.
	spoke := p.Text != "" || !p.Last
	if spoke {
		if err := b.accept(ctx, by, p.Text); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if spoke {
		b.queue = append(b.queue, p.Text)
	}
	b.attached -= b.lost
	b.lost = 0
	if !p.Last {
		b.attached, b.lost = b.attached+1, 1
	}
	if p.Key != "" {
		b.said[saidKey{by.Principal, p.Key}] = true
	}
	b.wake()
	return nil
}

func (b *mailbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// take returns the queued messages and empties the queue.
func (b *mailbox) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	texts := b.queue
	b.queue = nil
	return texts
}

func (b *mailbox) isAttached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attached > 0
}

// isLeft reports whether all clients that held the run open have disconnected.
func (b *mailbox) isLeft() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attached > 0 && b.attached == b.lost
}

// next returns the messages since the model's last turn. It returns none when the run is complete:
// no client can send more, and the mailbox is closed. An interactive run waits for messages while a
// client has an open inbox. After all clients have disconnected it waits for patience; the error is
// then RUN_ABANDONED.
func (b *mailbox) next(ctx context.Context, interactive bool, patience time.Duration) ([]string, error) {
	alone := newStopwatch(patience)
	defer alone.stop()
	for {
		if texts := b.take(); len(texts) > 0 {
			return texts, nil
		}
		if (!interactive || !b.isAttached()) && b.closeEmpty() {
			return nil, nil
		}
		alone.runWhile(b.isLeft())
		select {
		case <-b.changed:
		case <-alone.over:
			if b.isLeft() && b.closeEmpty() {
				return nil, reason.Errorf(reason.RunAbandoned, "the client disconnected, and no client attached within %s", patience)
			}
			alone.runWhile(false)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// stopwatch signals when a condition has lasted without a break for a given time.
type stopwatch struct {
	limit time.Duration
	timer *time.Timer
	// over is nil while nothing is timed.
	over <-chan time.Time
}

func newStopwatch(limit time.Duration) *stopwatch { return &stopwatch{limit: limit} }

// runWhile starts the watch if lasts is true and the watch is not running. If lasts is false,
// it stops the watch.
func (s *stopwatch) runWhile(lasts bool) {
	switch {
	case !lasts:
		s.stop()
	case s.timer == nil:
		s.timer = time.NewTimer(s.limit)
		s.over = s.timer.C
	}
}

func (s *stopwatch) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer, s.over = nil, nil
	}
}

// closeEmpty closes the mailbox unless a message is queued.
func (b *mailbox) closeEmpty() bool {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.closed = b.closed || b.waiting() == 0
	return b.closed
}

// close closes the mailbox; all accepted messages are then durable.
func (b *mailbox) close() {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.closed = true
}

// inbox is one client's handle of a mailbox.
type inbox struct {
	mailbox *mailbox
	by      access.Caller
	once    sync.Once
}

// Say queues a message of the user.
func (i *inbox) Say(ctx context.Context, text string) error { return i.mailbox.say(ctx, i.by, text) }

// Close ends the messages of this client and of disconnected clients. An interactive run that
// no other client holds open then ends with the model's turn.
func (i *inbox) Close() {
	i.once.Do(func() {
		i.mailbox.mu.Lock()
		i.mailbox.attached -= 1 + i.mailbox.lost
		i.mailbox.lost = 0
		i.mailbox.mu.Unlock()
		i.mailbox.wake()
	})
}

// Leave marks the client as disconnected without Close. The run stays open until a client
// attaches or calls Close. If the run waits for a message meanwhile, it ends after
// Limits.AbandonedAfter.
func (i *inbox) Leave() {
	i.once.Do(func() {
		i.mailbox.mu.Lock()
		i.mailbox.lost++
		i.mailbox.mu.Unlock()
		i.mailbox.wake()
	})
}

// endedInbox is the Inbox of a run that has ended, for a retry of Start.
type endedInbox struct{}

// Say returns RUN_ENDED.
func (endedInbox) Say(context.Context, string) error { return errEnded() }

// Close does nothing.
func (endedInbox) Close() {}

// Leave does nothing.
func (endedInbox) Leave() {}

func errEnded() *reason.Error { return reason.Errorf(reason.RunEnded, "the run has ended") }
