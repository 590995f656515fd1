// Package desktop shows desktop notifications about pending calls. It cannot answer them: the
// notifications have no buttons.
//
// The client shows them, because a notification belongs to the session of a user, and the
// session's bus accepts only that user's uid. palyrad may run with another uid or on another
// machine. Text from a model appears only in the body, without markup, images, links or sounds.
// From the server's answer, only the number of the notification is read.
package desktop

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// Desktop shows notifications.
type Desktop interface {
	// Show shows plain text below a title, replacing the previous notification if supported.
	Show(ctx context.Context, title, body string) error
	// Clear removes the notification if supported.
	Clear(ctx context.Context) error
	// Close ends the connection to the desktop; the notification stays.
	Close()
}

const (
	// gather is how long calls are collected into one notification.
	gather = 300 * time.Millisecond
	// apart is the minimum interval between notifications.
	apart = 2 * time.Second
	// patience is the timeout for showing a notification.
	patience = 2 * time.Second
	// mostBody is the maximum length of a body in bytes; the terminal shows the full text.
	mostBody = 240
)

// Bell notifies a desktop of calls that become pending.
type Bell struct {
	desktop Desktop
	failed  func(error)
	changed chan struct{}

	mu      sync.Mutex
	waiting []waiting
	// fresh is true if a call became pending since the last notification.
	fresh bool

	// shown is true while a notification is shown; only Run accesses it.
	shown bool
}

type waiting struct{ id, summary string }

// New returns the bell of a desktop. failed is called for the first failure.
func New(d Desktop, failed func(error)) *Bell {
	return &Bell{desktop: d, failed: failed, changed: make(chan struct{}, 1)}
}

// Saw processes the current state of an approval. It does not block.
func (b *Bell) Saw(id, summary string, pending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.waiting, func(w waiting) bool { return w.id == id })
	switch {
	case pending && at < 0:
		b.waiting = append(b.waiting, waiting{id, text.Ellipsis(printer.VisibleLine(summary), mostBody)})
		b.fresh = true
	case !pending && at >= 0:
		b.waiting = slices.Delete(b.waiting, at, at+1)
	default:
		return
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Run shows notifications until ctx ends. After a failure it tries again when another call becomes
// pending.
func (b *Bell) Run(ctx context.Context) {
	defer b.desktop.Close()
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
		}
		if !pause(ctx, gather) {
			return
		}
		if err := b.tell(ctx); err != nil && !told && ctx.Err() == nil {
			told = true
			b.failed(err)
		}
		if !pause(ctx, apart) {
			return
		}
	}
}

func (b *Bell) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.mu.Lock()
	fresh, list := b.fresh, slices.Clone(b.waiting)
	b.fresh = false
	b.mu.Unlock()
	switch {
	case len(list) == 0 && !b.shown:
		// The call was answered before a notification was shown.
		return nil
	case len(list) == 0:
		b.shown = false
		return b.desktop.Clear(ctx)
	case !fresh:
		// The user who answered one of several calls needs no new notification.
		return nil
	case len(list) == 1:
		return b.show(ctx, "A call waits for approval", list[0].summary)
	}
	return b.show(ctx, strconv.Itoa(len(list))+" calls wait for approval", "Run palyra approvals list.")
}

func (b *Bell) show(ctx context.Context, title, body string) error {
	err := b.desktop.Show(ctx, title, body)
	b.shown = b.shown || err == nil
	return err
}

// pause waits and reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
