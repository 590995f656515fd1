package kek

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"palyra/internal/core/reason"
)

// load loads the current key. An unavailable backend is queried again at the next call, but at most
// once a second. r.turn must be held.
func (r *Ring) load(ctx context.Context) error {
	now := r.o.Now()
	if r.keys != nil && now.Sub(r.asked) < holdTime {
		return nil
	}
	if r.failed != nil && now.Sub(r.asked) < retryTime {
		return r.failed
	}
	return r.again(ctx)
}

// again queries the backend at once.
func (r *Ring) again(ctx context.Context) error {
	now := r.o.Now()
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
		r.forget()
	}
	if !r.asked.IsZero() && (err == nil) == (r.failed == nil) {
		return
	}
	r.since = r.o.Now()
	switch {
	case err != nil:
		why := reason.Known(err, reason.VaultLocked)
		r.o.Log.WarnContext(ctx, "the key of the vault is not available", slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
	case !r.asked.IsZero():
		r.o.Log.InfoContext(ctx, "the key of the vault is available again")
	}
}

// forget removes the keys from memory. The next call queries the backend.
func (r *Ring) forget() {
	for _, key := range r.keys {
		clear(key)
	}
	r.pin, r.keys = nil, nil
}

// ask fetches the current key from its pinned backend. Without a pin, which means the first
// start of the gateway, ask creates a key.
func (r *Ring) ask(ctx context.Context) error {
	p, key, err := r.look(ctx)
	if errors.Is(err, errNoPin) {
		p, key, err = r.first(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.record(ctx, p); err != nil {
		return err
	}
	r.have(p, key)
	_ = r.tidy(ctx) // remaining keys stay on the pin's list, and are retried at the next query
	return nil
}

// look returns the pin and its current key, after verifying the pin with the key.
func (r *Ring) look(ctx context.Context) (*pin, []byte, error) {
	p, err := readPin(r.o.Dir, r.o.Gateway)
	if err != nil {
		return nil, nil, err
	}
	key, err := r.fetch(ctx, p, p.current())
	if err != nil {
		return nil, nil, err
	}
	if !p.authentic(key) {
		return nil, nil, changedPin("vault.json was changed without the key of the vault")
	}
	return p, key, nil
}

// record journals the existence of a key before the key wraps anything.
func (r *Ring) record(ctx context.Context, p *pin) error {
	if r.recorded {
		return nil
	}
	known, err := r.o.Journal.Known(ctx)
	if err == nil && !known {
		err = r.o.Journal.Pinned(ctx, p.Backend, p.current().ID)
	}
	r.recorded = err == nil
	return err
}

// have sets a pin with its current key.
func (r *Ring) have(p *pin, key []byte) {
	r.forget()
	r.pin, r.keys = p, map[string][]byte{p.current().ID: key}
}

// fetch gets one of the keys of a pin from its backend.
func (r *Ring) fetch(ctx context.Context, p *pin, k pinned) ([]byte, error) {
	b, err := r.backend(p.Backend)
	if err != nil {
		return nil, err
	}
	key, err := b.Get(ctx, k.ID)
	switch {
	case errors.Is(err, ErrNoKey):
		return nil, missing(p.Backend, k.ID)
	case err != nil:
		return nil, unasked(err)
	case !k.is(key):
		return nil, reason.Errorf(reason.SecretUnreadable, "the key %[2]s in the backend %[1]s is not the pinned one", p.Backend, k.ID).
			WithRemedy("Restore it from a backup: %s.", whereIs(p.Backend))
	}
	return key, nil
}

// key returns a key by its id. For an unknown id the pin is read again, because it may have been
// restored meanwhile.
func (r *Ring) key(ctx context.Context, id string) ([]byte, error) {
	if key, ok := r.keys[id]; ok {
		return key, nil
	}
	k, ok := r.pin.find(id)
	if !ok && r.o.Now().Sub(r.asked) >= retryTime {
		if err := r.again(ctx); err != nil {
			return nil, err
		}
		k, ok = r.pin.find(id)
	}
	if !ok {
		return nil, reason.Errorf(reason.VaultKeyMissing, "the vault has no key %s: it was dropped, or belongs to another gateway", id).
			WithRemedy("Restore vault.json and the key from a backup that contains it: %s.", whereIs(r.pin.Backend))
	}
	if key, ok := r.keys[id]; ok {
		return key, nil
	}
	key, err := r.fetch(ctx, r.pin, k)
	if err != nil {
		return nil, err
	}
	r.keys[id] = key
	return key, nil
}

// backend returns a backend by its name.
func (r *Ring) backend(name string) (Backend, error) {
	for _, b := range r.o.Backends {
		if b.Name() == name {
			return b, nil
		}
	}
	return nil, reason.Errorf(reason.VaultLocked, "the key of the vault is in the backend %q, which is not available on this system", name).
		WithRemedy("Start the gateway on the system where its vault was created.")
}

// tidy deletes the left-over keys of changes.
func (r *Ring) tidy(ctx context.Context) error {
	if len(r.pin.Leftover) == 0 {
		return nil
	}
	p := r.pin.clone()
	var errs []error
	for _, l := range r.pin.Leftover {
		b, err := r.backend(l.Backend)
		if err == nil {
			err = r.discard(ctx, b, l.ID)
		}
		if err != nil {
			errs = append(errs, unasked(err))
			continue
		}
		r.o.reached("deleted " + l.ID)
		p.settle(l.Backend, l.ID)
	}
	if len(p.Leftover) < len(r.pin.Leftover) {
		errs = append(errs, r.adopt(p))
	}
	return errors.Join(errs...)
}

// discard deletes a key from a backend. A backend without pinned keys is erased.
func (r *Ring) discard(ctx context.Context, b Backend, id string) error {
	if e, ok := b.(eraser); ok && b.Name() != r.pin.Backend {
		return e.erase()
	}
	return b.Delete(ctx, id)
}

// adopt sets a changed pin, authenticated by its current key.
func (r *Ring) adopt(p *pin) error {
	if err := p.write(r.o.Dir, r.keys[p.current().ID]); err != nil {
		return err
	}
	r.pin = p
	return nil
}

// roundTrip stores a key in a backend and reads it back.
func roundTrip(ctx context.Context, b Backend, id string, key []byte) error {
	if err := b.Put(ctx, id, key); err != nil {
		return unasked(err)
	}
	back, err := b.Get(ctx, id)
	if err != nil {
		return unasked(err)
	}
	defer clear(back)
	if !bytes.Equal(back, key) {
		return reason.Errorf(reason.VaultLocked, "the backend %s returned another key than the stored one", b.Name())
	}
	return nil
}
