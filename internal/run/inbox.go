package run

import (
	"context"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// mostQueued bounds the messages that wait for the model's next turn.
const mostQueued = 64

// mailbox is what users say to a run.
type mailbox struct {
	// keep makes a message durable, with who said it.
	keep func(ctx context.Context, by access.Caller, text string) error

	// ending is held for reading while a message is made durable, so that a run
	// that ends leaves no message behind.
	ending sync.RWMutex
	closed bool

	mu    sync.Mutex
	queue []string
	// attached counts the inboxes that were handed out and not closed, lost those
	// among them whose clients are gone.
	attached, lost int
	// once orders messages that have keys; said are those that were taken.
	once sync.Mutex
	said map[saidKey]bool
	// changed has room for one wake-up of the run.
	changed chan struct{}
}

// saidKey is the key of a message: keys are their callers' own.
type saidKey struct {
	by  access.Principal
	key string
}

func newMailbox(keep func(context.Context, access.Caller, string) error) *mailbox {
	return &mailbox{keep: keep, said: map[saidKey]bool{}, changed: make(chan struct{}, 1)}
}

// attach hands out one more inbox, which replaces those that are lost.
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

// accept makes a message durable, unless it cannot be taken.
func (b *mailbox) accept(ctx context.Context, by access.Caller, content string) error {
	switch {
	case b.closed:
		return errEnded()
	case content == "":
		return reason.Errorf(reason.InvalidInput, "the message is empty").WithField("field", "text")
	case b.waiting() >= mostQueued:
		return reason.Errorf(reason.RateLimited, "%s wait for the model's next turn", text.Plural(mostQueued, "message")).
			WithRemedy("Wait for the model's next turn.")
	}
	return b.keep(ctx, by, content)
}

// post takes a message of a client that holds no inbox. The run is then held open
// as by a client that left, or, after the last message, by no such client.
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
	// The last message may be that there is none.
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

// take returns what was said and empties the queue.
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

// isLeft reports whether all clients that held the run open are gone.
func (b *mailbox) isLeft() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attached > 0 && b.attached == b.lost
}

// next is called when the model has ended its turn, and returns the messages that
// came since. It returns none when the run is over: nobody has anything more to say,
// and the mailbox is closed. An interactive run waits for messages as long as a
// client has an open inbox; when all clients have left, for as long as patience and
// no longer, and the error is then RUN_ABANDONED.
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
				return nil, reason.Errorf(reason.RunAbandoned, "the client left, and nobody came back within %s to say what comes next", patience)
			}
			alone.runWhile(false)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// stopwatch says when something has lasted for a time without a break.
type stopwatch struct {
	limit time.Duration
	timer *time.Timer
	// over is nil while nothing is timed.
	over <-chan time.Time
}

func newStopwatch(limit time.Duration) *stopwatch { return &stopwatch{limit: limit} }

// runWhile starts the watch unless it runs, or stops it.
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

// closeEmpty shuts the mailbox unless a message waits in it.
func (b *mailbox) closeEmpty() bool {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.closed = b.closed || b.waiting() == 0
	return b.closed
}

// close shuts the mailbox; every message that was accepted is durable then.
func (b *mailbox) close() {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.closed = true
}

// inbox is one client's hold of a mailbox.
type inbox struct {
	mailbox *mailbox
	by      access.Caller
	once    sync.Once
}

// Say queues what the user says next.
func (i *inbox) Say(ctx context.Context, text string) error { return i.mailbox.say(ctx, i.by, text) }

// Close says that no more messages come, from this client or from those that left:
// an interactive run that nobody else holds open then ends with the model's turn.
func (i *inbox) Close() {
	i.once.Do(func() {
		i.mailbox.mu.Lock()
		i.mailbox.attached -= 1 + i.mailbox.lost
		i.mailbox.lost = 0
		i.mailbox.mu.Unlock()
		i.mailbox.wake()
	})
}

// Leave says that the client is gone without a Close. The run stays open for it
// until a client attaches, which takes its place, or another one calls Close; when it
// waits for a message and nobody does either, until Limits.AbandonedAfter is over.
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
