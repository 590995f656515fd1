// Package tending looks after what calls left behind, in the background: it seals what
// an older palyrad stored in plain, and takes the bytes of what has been kept long
// enough. Both end with the plain bytes gone from the store's files.
package tending

import (
	"context"
	"log/slog"
	"time"

	"palyra/internal/core/reason"
)

// Store is what is tended.
type Store interface {
	// KeepsResults is nil when values can be sealed, and ResultsOpened is closed once
	// that is so.
	KeepsResults(ctx context.Context) error
	ResultsOpened() <-chan struct{}
	// SealOlder and ExpireResults do a small part of what there is to do, and say
	// whether they found something: then there may be more.
	SealOlder(ctx context.Context) (more bool, err error)
	ExpireResults(ctx context.Context, before time.Time) (more bool, err error)
	// Scrub empties the store's log of writes; not when somebody reads.
	Scrub() (done bool, err error)
}

// Config is what Run needs.
type Config struct {
	Store Store
	// Retention is how long what calls left behind is kept; 0 is for ever.
	Retention time.Duration
	// Now is the clock by which things were kept; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
}

const (
	// interval is between two looks for what has expired, retry after a failure.
	interval = time.Hour
	retry    = time.Minute
	// scrubRetry is after a reader was in the way.
	scrubRetry = time.Second
	// After each part the background rests so many times as long as it took, and at
	// least shortestRest, so that callers have the disk for themselves mostly.
	rests        = 4
	shortestRest = 5 * time.Millisecond
)

// Run works until ctx ends. What fails is logged and tried again; the store is as
// usable meanwhile.
func Run(ctx context.Context, c Config) error {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.open(ctx)
	c.insist(ctx, "sealing what an older palyrad stored", func() error {
		return c.all(ctx, func() (bool, error) { return c.Store.SealOlder(ctx) })
	})
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

// open waits until values can be sealed. Whoever needs that first opens the vault, or
// this does.
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

// insist does something until it is done.
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

// all does part after part, with rests, and takes what it replaced out of the files.
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
