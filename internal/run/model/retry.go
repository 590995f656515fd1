package model

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"
	"time"
)

// Retries bounds the attempts at one turn. Zero fields mean the defaults.
type Retries struct {
	// Attempts includes the first one; the default is 5.
	Attempts int
	// Backoff is the longest wait after the first failure, and doubles with each further one; the
	// default is 1 s. Half of a wait is random, so that runs that failed together do not retry
	// together.
	Backoff time.Duration
	// MaxWait bounds each wait; the default is 1 min. If a provider requests more, the attempts end
	// at once.
	MaxWait time.Duration
}

// The defaults of Retries.
const (
	defaultAttempts = 5
	defaultBackoff  = time.Second
	defaultMaxWait  = time.Minute
)

// Generate makes attempts until one yields a turn or an error that is not Transient. It reports
// every retry to observe. When ctx ends it returns at once.
func (r Retries) Generate(ctx context.Context, observe func(Event), attempt func(context.Context) (Turn, error)) (Turn, error) {
	attempts, maxWait := cmp.Or(r.Attempts, defaultAttempts), cmp.Or(r.MaxWait, defaultMaxWait)
	for n := 1; ; n++ {
		turn, err := attempt(ctx)
		var failed *Transient
		switch {
		case err == nil:
			return turn, nil
		case ctx.Err() != nil:
			return Turn{}, cancelled(ctx)
		case !errors.As(err, &failed):
			return Turn{}, err
		case failed.Wait > maxWait:
			return Turn{}, failed.later(time.Now())
		case n >= attempts:
			return Turn{}, failed.Err.WithField("attempts", strconv.Itoa(n))
		}
		wait := cmp.Or(failed.Wait, min(r.backoff(n), maxWait))
		observe(Event{Retry: &Retry{Attempt: n, Cause: failed.Err, After: wait}})
		if !sleep(ctx, wait) {
			return Turn{}, cancelled(ctx)
		}
	}
}

// later returns the error for a provider that requests a longer wait than the maximum.
func (t *Transient) later(now time.Time) error {
	if t.Wait > 365*24*time.Hour {
		return t.Err
	}
	at := now.Add(t.Wait).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
	return t.Err.WithRemedy("Try again after %s, as the provider requests.", at).WithField("retry_at", at)
}

// backoff returns the wait after the nth failure.
func (r Retries) backoff(n int) time.Duration {
	longest := cmp.Or(r.Backoff, defaultBackoff) << min(n-1, 16)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	return longest/2 + time.Duration(binary.LittleEndian.Uint64(random[:])%uint64(longest/2+1))
}

// sleep waits and reports whether ctx is still valid.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
