package kek

import (
	"context"
	"errors"
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
