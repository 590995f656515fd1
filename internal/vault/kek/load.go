package kek

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"palyra/internal/core/reason"
)

// load has the current key there, or says why not. A backend that could not be asked is
// asked again at the next call, but for the calls of one second. r.turn is held.
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

// again asks the backend at once.
func (r *Ring) again(ctx context.Context) error {
	now := r.o.Now()
	err := r.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return err // who asked has left, which says nothing of the backend
	}
	r.tell(ctx, err)
	r.asked, r.failed = now, err
	return err
}

// tell notes whether the keys can be used, and has the log know when that changes.
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
		r.o.Log.WarnContext(ctx, "the key of the vault cannot be used", slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
	case !r.asked.IsZero():
		r.o.Log.InfoContext(ctx, "the key of the vault can be used again")
	}
}

// forget takes the keys out of memory. The next call asks the backend.
func (r *Ring) forget() {
	for _, key := range r.keys {
		clear(key)
	}
	r.pin, r.keys = nil, nil
}

// ask fetches the current key from where it is pinned. Where nothing is pinned, this is
// the first start of the gateway, and it makes one.
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
	_ = r.tidy(ctx) // what stays is on the pin's list, and is tried when the backend is asked next
	return nil
}

// look returns the pin with its current key, which says that it is authentic.
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
		return nil, nil, changedPin("vault.json was changed by somebody who does not have the key of the vault")
	}
	return p, key, nil
}

// record has the journal know of a key before anything is wrapped by it.
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

// have takes over a pin with its current key.
func (r *Ring) have(p *pin, key []byte) {
	r.forget()
	r.pin, r.keys = p, map[string][]byte{p.current().ID: key}
}

// fetch asks the backend of a pin for one of its keys.
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
		return nil, reason.Errorf(reason.SecretUnreadable, "the backend %s has another key under the name %s than the one that was pinned", p.Backend, k.ID).
			WithRemedy("Restore it from a backup: %s.", whereIs(p.Backend))
	}
	return key, nil
}

// key returns a key by its id. The pin is read anew for one that it does not name:
// somebody may have restored it meanwhile.
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
		return nil, reason.Errorf(reason.VaultKeyMissing, "the vault has no key %s: it was dropped, or is another gateway's", id).
			WithRemedy("Restore vault.json and the key from a backup of the time when it was there: %s.", whereIs(r.pin.Backend))
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
	return nil, reason.Errorf(reason.VaultLocked, "the key of the vault is in the backend %q, which there is none of here", name).
		WithRemedy("Start the gateway on the system on which its vault was made.")
}

// tidy deletes what is left over of changes.
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

// discard takes a key out of a backend. One that no key is pinned in has nothing left
// that counts.
func (r *Ring) discard(ctx context.Context, b Backend, id string) error {
	if e, ok := b.(eraser); ok && b.Name() != r.pin.Backend {
		return e.erase()
	}
	return b.Delete(ctx, id)
}

// adopt makes a changed pin the one that counts, by the key that it names as current.
func (r *Ring) adopt(p *pin) error {
	if err := p.write(r.o.Dir, r.keys[p.current().ID]); err != nil {
		return err
	}
	r.pin = p
	return nil
}

// roundTrip puts a key into a backend and reads it back.
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
		return reason.Errorf(reason.VaultLocked, "the backend %s gives back another key than it was given", b.Name())
	}
	return nil
}
