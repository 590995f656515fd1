package kek

import (
	"context"
	"errors"
	"log/slog"

	"palyra/internal/core/reason"
)

// load loads the current key. An unavailable backend is queried again at the next call, but at most
// once a second. r.turn must be held.
func (r *Ring) load(ctx context.Context) error {
	now := r.at.Now()
	if r.set.keys != nil && now.Sub(r.asked) < holdTime {
		return nil
	}
	if r.failed != nil && now.Sub(r.asked) < retryTime {
		return r.failed
	}
	return r.again(ctx)
}

// again queries the backend at once.
func (r *Ring) again(ctx context.Context) error {
	now := r.at.Now()
	err := r.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return err // the caller was cancelled, which does not concern the backend
	}
	r.tell(ctx, err)
	r.asked, r.failed = now, err
	return err
}

// tell records whether the keys are available, and logs changes.
func (r *Ring) tell(ctx context.Context, err error) {
	if err != nil {
		r.set.forget()
	}
	if !r.asked.IsZero() && (err == nil) == (r.failed == nil) {
		return
	}
	r.since = r.at.Now()
	switch {
	case err != nil:
		why := reason.Known(err, reason.VaultLocked)
		r.at.Log.WarnContext(ctx, "the key of the vault is not available", slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
	case !r.asked.IsZero():
		r.at.Log.InfoContext(ctx, "the key of the vault is available again")
	}
}

// ask fetches the current key from its pinned backend. Without a pin, which means the first
// start of the gateway, ask creates a key.
func (r *Ring) ask(ctx context.Context) error {
	p, key, err := r.at.look(ctx)
	if errors.Is(err, errNoPin) {
		p, key, err = r.at.first(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.record(ctx, p); err != nil {
		return err
	}
	r.set.have(p, key)
	_ = r.set.tidy(ctx) // remaining keys stay on the pin's list, and are retried at the next query
	return nil
}

// record journals the existence of a key before the key wraps anything.
func (r *Ring) record(ctx context.Context, p *pin) error {
	if r.recorded {
		return nil
	}
	known, err := r.at.Journal.Known(ctx)
	if err == nil && !known {
		err = r.at.Journal.Pinned(ctx, p.Backend, p.current().ID)
	}
	r.recorded = err == nil
	return err
}

// key returns a key by its id. For an unknown id the pin is read again, because it may have been
// restored meanwhile.
func (r *Ring) key(ctx context.Context, id string) ([]byte, error) {
	if !r.set.knows(id) && r.at.Now().Sub(r.asked) >= retryTime {
		if err := r.again(ctx); err != nil {
			return nil, err
		}
	}
	return r.set.key(ctx, id)
}
