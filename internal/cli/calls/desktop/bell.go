// Package desktop tells the person at a desktop that calls wait for an answer. It
// tells and decides nothing: what it shows has no buttons.
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

// Desktop is where notifications are shown.
type Desktop interface {
	// Show shows plain text below a title, in the place of what was shown before
	// where the system can do that.
	Show(ctx context.Context, title, body string) error
	// Clear takes away what was shown, where the system can do that.
	Clear(ctx context.Context) error
	// Close ends the connection to the desktop; what is shown stays.
	Close()
}

const (
	// gather is how long a call that begins to wait has company: all that come
	// meanwhile are one notification.
	gather = 300 * time.Millisecond
	// apart is the least time between two notifications.
	apart = 2 * time.Second
	// patience bounds what the desktop takes to show one.
	patience = 2 * time.Second
	// mostBody bounds a text in bytes; the rest is in the terminal.
	mostBody = 240
)

// Bell notifies a desktop of the calls that begin to wait.
type Bell struct {
	desktop Desktop
	failed  func(error)
	changed chan struct{}

	mu      sync.Mutex
	waiting []waiting
	// fresh says that one began to wait since the desktop was told.
	fresh bool

	// shown says that a notification stands; Run alone has it.
	shown bool
}

type waiting struct{ id, summary string }

// New is the bell of a desktop. failed is told of the first failure.
func New(d Desktop, failed func(error)) *Bell {
	return &Bell{desktop: d, failed: failed, changed: make(chan struct{}, 1)}
}

// Saw takes an approval as it is now. It never waits.
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

// Run tells the desktop until ctx ends. A desktop that fails is tried again when
// another call begins to wait.
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
		// It was answered before anybody was told.
		return nil
	case len(list) == 0:
		b.shown = false
		return b.desktop.Clear(ctx)
	case !fresh:
		// An answer to one of several is no news to who gave it.
		return nil
	case len(list) == 1:
		return b.show(ctx, "A call waits for approval", list[0].summary)
	}
	return b.show(ctx, strconv.Itoa(len(list))+" calls wait for approval", "palyra approvals list shows them.")
}

func (b *Bell) show(ctx context.Context, title, body string) error {
	err := b.desktop.Show(ctx, title, body)
	b.shown = b.shown || err == nil
	return err
}

// pause reports whether the time passed before ctx ended.
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
