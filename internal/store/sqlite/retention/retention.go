// Package retention deletes stored results in the background when their retention period is over,
// and removes their bytes from the store's files.
package retention

import (
	"context"
	"log/slog"
	"time"

	"palyra/internal/core/reason"
)

// Store is the store to maintain.
type Store interface {
	// KeepsResults returns nil if values can be sealed. The channel of ResultsOpened is closed
	// once they can be sealed.
	KeepsResults(ctx context.Context) error
	ResultsOpened() <-chan struct{}
	// ExpireResults processes a small part of the work and reports whether more may remain.
	ExpireResults(ctx context.Context, before time.Time) (more bool, err error)
	// Scrub empties the store's WAL. done is false while a reader prevents it.
	Scrub() (done bool, err error)
}

// Config holds the dependencies of Run.
type Config struct {
	Store Store
	// Retention is the retention period of results; 0 keeps them forever.
	Retention time.Duration
	// Now is the clock of the retention period; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
}

const (
	// interval is the time between two searches for expired data; retry is the delay after a
	// failure.
	interval = time.Hour
	retry    = time.Minute
	// scrubRetry is the delay after a reader prevented a scrub.
	scrubRetry = time.Second
	// rests is the pause after each part as a multiple of the part's duration, and shortestRest is
	// the shortest pause. The pauses leave most of the disk's time to callers.
	rests        = 4
	shortestRest = 5 * time.Millisecond
)

// Run works until ctx ends. It logs and retries failures; the store remains usable meanwhile.
func Run(ctx context.Context, c Config) error {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.open(ctx)
	for ctx.Err() == nil {
		if c.Retention > 0 {
			before := c.Now().Add(-c.Retention)
			c.insist(ctx, "expiring results", func() error {
				return c.all(ctx, func() (bool, error) { return c.Store.ExpireResults(ctx, before) })
			})
		}
		rest(ctx, interval)
	}
	return nil
}

// open waits until values can be sealed. The first caller that needs the vault opens it, which may
// be this one.
func (c *Config) open(ctx context.Context) {
	for said := reason.Code(""); ctx.Err() == nil; {
		err := c.Store.KeepsResults(ctx)
		if err == nil {
			return
		}
		if code := reason.Of(err); code != said && ctx.Err() == nil {
			said = code
			c.Log.WarnContext(ctx, "what calls return cannot be kept, and so they are refused, until the vault is open", slog.String("error", err.Error()))
		}
		select {
		case <-c.Store.ResultsOpened():
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

// insist calls do until it succeeds or ctx ends, and logs each failure.
func (c *Config) insist(ctx context.Context, what string, do func() error) {
	for ctx.Err() == nil {
		err := do()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			c.Log.WarnContext(ctx, "the upkeep of results did not succeed, and is tried again",
				slog.String("step", what), slog.String("error", err.Error()), slog.Duration("next_try", retry))
			rest(ctx, retry)
		}
	}
}

// all processes part after part with pauses, and then removes the replaced data from the files.
func (c *Config) all(ctx context.Context, part func() (more bool, err error)) error {
	parts := 0
	for ctx.Err() == nil {
		began := time.Now()
		more, err := part()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		parts++
		rest(ctx, max(shortestRest, rests*time.Since(began)))
	}
	if parts == 0 {
		return nil
	}
	return c.scrub(ctx)
}

func (c *Config) scrub(ctx context.Context) error {
	for ctx.Err() == nil {
		done, err := c.Store.Scrub()
		if err != nil || done {
			return err
		}
		rest(ctx, scrubRetry)
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
