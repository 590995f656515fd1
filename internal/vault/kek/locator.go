package kek

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"palyra/internal/core/reason"
)

// locator finds the keys of a gateway in the backend of its pin, or in the first backend that
// works. It caches nothing.
type locator struct{ Options }

func newLocator(o Options) locator {
	if o.Backends == nil {
		o.Backends = System(o)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Journal == nil {
		o.Journal = forgetful{}
	}
	if o.reached == nil {
		o.reached = func(string) {}
	}
	return locator{o}
}

// look returns the pin and its current key, after verifying the pin with the key.
func (l locator) look(ctx context.Context) (*pin, []byte, error) {
	p, err := readPin(l.Dir, l.Gateway)
	if err != nil {
		return nil, nil, err
	}
	key, err := l.fetch(ctx, p, p.current())
	if err != nil {
		return nil, nil, err
	}
	if !p.authentic(key) {
		return nil, nil, changedPin("vault.json was changed without the key of the vault")
	}
	return p, key, nil
}

// fetch gets one of the keys of a pin from its backend.
func (l locator) fetch(ctx context.Context, p *pin, k pinned) ([]byte, error) {
	b, err := l.backend(p.Backend)
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

// backend returns a backend by its name.
func (l locator) backend(name string) (Backend, error) {
	for _, b := range l.Backends {
		if b.Name() == name {
			return b, nil
		}
	}
	return nil, reason.Errorf(reason.VaultLocked, "the key of the vault is in the backend %q, which is not available on this system", name).
		WithRemedy("Start the gateway on the system where its vault was created.")
}

// file returns the backend "file" of the options.
func (l locator) file() (*file, bool) {
	b, err := l.backend(InFile)
	if err != nil {
		return nil, false
	}
	f, ok := b.(*file)
	return f, ok
}

// target returns the destination backend of a move from the backend from.
func (l locator) target(from string, to Target) (Backend, error) {
	for _, b := range l.Backends {
		switch {
		case b.Name() != to.Backend:
		case to.Backend == InFile:
			return newFile(l.Dir, l.Gateway, to.Passphrase), nil
		case to.Backend == from:
			return nil, reason.Errorf(reason.InvalidInput, "the key of the vault is already in %s", spoken(to.Backend)).
				WithRemedy("Check it with `palyrad doctor`.")
		default:
			return b, nil
		}
	}
	var names []string
	for _, b := range l.Backends {
		names = append(names, b.Name())
	}
	return nil, reason.Errorf(reason.InvalidInput, "the backend %q is not available on this system", to.Backend).WithRemedy("Use one of %q.", names)
}

// first creates the first key of a gateway and writes the pin. After an interruption before the
// pin, the next start uses a key that is in a file. A key in a keyring stays there unused.
func (l locator) first(ctx context.Context) (*pin, []byte, error) {
	b, ids, err := l.choose(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(ids) > 0 {
		return l.take(ctx, b, ids)
	}
	known, err := l.Journal.Known(ctx)
	if err != nil {
		return nil, nil, err
	}
	if known {
		return nil, nil, reason.Errorf(reason.VaultKeyMissing, "vault.json is missing: according to the journal the vault has a key, whose location is unknown").
			WithRemedy("Restore vault.json from a backup of the state directory, with vault.kek if it existed.")
	}
	id, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if err := roundTrip(ctx, b, id, key); err != nil {
		return nil, nil, err
	}
	l.reached("put")
	k, err := newPinned(id, key)
	if err != nil {
		return nil, nil, err
	}
	return l.begin(&pin{Format: pinFormat, Gateway: l.Gateway, Backend: b.Name(), Keys: []pinned{k}, Leftover: []leftover{}}, key)
}

// begin writes the first pin.
func (l locator) begin(p *pin, key []byte) (*pin, []byte, error) {
	if err := p.write(l.Dir, key); err != nil {
		return nil, nil, err
	}
	l.reached("pinned")
	return p, key, nil
}

// take pins keys in the state directory that have no pin.
func (l locator) take(ctx context.Context, b Backend, ids []string) (*pin, []byte, error) {
	p := &pin{Format: pinFormat, Gateway: l.Gateway, Backend: b.Name(), Leftover: []leftover{}}
	var key []byte
	for _, id := range ids {
		var err error
		if key, err = b.Get(ctx, id); err != nil {
			return nil, nil, unasked(err)
		}
		k, err := newPinned(id, key)
		if err != nil {
			return nil, nil, err
		}
		p.Keys = append(p.Keys, k)
	}
	return l.begin(p, key)
}

// choose returns the backend for the first key: the configured backend, or the best backend
// that works. ids are the keys that the backend already has, from an interrupted first start or
// from a gateway whose pin is lost. In these cases no further key is created.
func (l locator) choose(ctx context.Context) (_ Backend, ids []string, err error) {
	for _, b := range l.Backends {
		h, ok := b.(holder)
		if !ok {
			continue
		}
		ids, err := h.held(ctx)
		switch {
		case err != nil:
			return nil, nil, unasked(err)
		case len(ids) == 0:
		case l.Backend != Auto && l.Backend != b.Name():
			return nil, nil, reason.Errorf(reason.VaultKeyMissing, "vault.json is missing, but the state directory has a key of the vault in the backend %s", b.Name()).
				WithRemedy("Restore vault.json from a backup of the state directory, or set vault.backend to %q.", b.Name())
		default:
			return b, ids, nil
		}
	}
	if l.Backend != Auto {
		b, err := l.backend(l.Backend)
		return b, nil, err
	}
	var errs []error
	for _, b := range l.Backends {
		if err := probe(ctx, b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", spoken(b.Name()), err))
			continue
		}
		if len(errs) > 0 {
			l.Log.InfoContext(ctx, "a better backend for the key of the vault cannot be used",
				slog.String("backend", b.Name()), slog.Any("problem", errors.Join(errs...)))
		}
		return b, nil, nil
	}
	return nil, nil, unasked(errors.Join(errs...))
}

// probe reports whether a backend works: it stores, reads and deletes a key.
func probe(ctx context.Context, b Backend) error {
	id, key, err := newKey()
	if err != nil {
		return err
	}
	id = "probe_" + id
	err = roundTrip(ctx, b, id, key)
	if gone := b.Delete(context.WithoutCancel(ctx), id); err == nil {
		err = gone
	}
	if err != nil {
		return err
	}
	if _, err := b.Get(ctx, id); !errors.Is(err, ErrNoKey) {
		return fmt.Errorf("it still has a deleted key: %w", err)
	}
	return nil
}
