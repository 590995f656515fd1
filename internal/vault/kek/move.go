package kek

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"palyra/internal/core/reason"
)

// Target is where keys are to be moved.
type Target struct {
	Backend string
	// Passphrase returns that of the backend "file", nil for none. It takes the place of
	// the one in the options.
	Passphrase func() ([]byte, error)
}

// Move moves all keys of a gateway to another backend, or puts those in a file under
// another passphrase. No palyrad uses them meanwhile. Cut off at any point, the keys can
// be read where the pin says, and what lies elsewhere is deleted at the next start. When
// it returns an error together with where the keys are now, they were moved, and what
// follows could not be done.
func Move(ctx context.Context, o Options, to Target) (s Status, err error) {
	r := newRing(o)
	err = r.inTurn(ctx, func() error {
		p, key, err := r.look(ctx)
		if errors.Is(err, errNoPin) {
			return reason.Errorf(reason.NotFound, "the vault has no key yet that could be moved").
				WithRemedy("Set vault.backend to %q; the next start of palyrad makes it there.", to.Backend)
		}
		if err != nil {
			return err
		}
		r.have(p, key)
		b, err := r.target(to)
		if err != nil {
			return err
		}
		ctx := context.WithoutCancel(ctx)
		_ = r.tidy(ctx) // what stays is tried again
		from := r.pin.Backend
		if from == to.Backend {
			err = r.reseal(b)
		} else {
			err = r.move(ctx, b, to)
		}
		if err != nil {
			return err
		}
		s.Backend, s.ID, s.Older = to.Backend, r.pin.current().ID, len(r.pin.Keys)-1
		if err := r.tidy(ctx); err != nil {
			return fmt.Errorf("the keys are moved, and those in %s are not deleted yet: %w", spoken(from), err)
		}
		return nil
	})
	if s.Backend != "" {
		if told := r.o.Journal.Pinned(context.WithoutCancel(ctx), s.Backend, s.ID); told != nil && err == nil {
			err = fmt.Errorf("the keys are moved, and that could not be journaled: %w", told)
		}
	}
	return s, err
}

// target returns the backend that keys are to be moved to.
func (r *Ring) target(to Target) (Backend, error) {
	for _, b := range r.o.Backends {
		switch {
		case b.Name() != to.Backend:
		case to.Backend == InFile:
			return newFile(r.o.Dir, r.o.Gateway, to.Passphrase), nil
		case to.Backend == r.pin.Backend:
			return nil, reason.Errorf(reason.InvalidInput, "the key of the vault is in %s already", spoken(to.Backend)).
				WithRemedy("`palyrad doctor` says how it is.")
		default:
			return b, nil
		}
	}
	var names []string
	for _, b := range r.o.Backends {
		names = append(names, b.Name())
	}
	return nil, reason.Errorf(reason.InvalidInput, "there is no backend %q here", to.Backend).WithRemedy("Name one of %q.", names)
}

// move copies the keys, reads them back as the next palyrad will, and switches the pin.
func (r *Ring) move(ctx context.Context, b Backend, to Target) error {
	from := r.pin.Backend
	p := r.pin.clone()
	for _, k := range p.Keys {
		p.leave(to.Backend, k.ID)
	}
	if err := r.adopt(p); err != nil {
		return err
	}
	r.o.reached("announced")
	for _, k := range p.Keys {
		key, err := r.key(ctx, k.ID)
		if err != nil {
			return err
		}
		if err := roundTrip(ctx, b, k.ID, key); err != nil {
			return err
		}
		r.o.reached("put " + k.ID)
	}
	again, err := r.target(to)
	if err != nil {
		return err
	}
	if err := r.same(ctx, again); err != nil {
		return err
	}
	r.o.reached("verified")
	p = r.pin.clone()
	p.Backend = to.Backend
	for _, k := range p.Keys {
		p.settle(to.Backend, k.ID)
		p.leave(from, k.ID)
	}
	if err := r.adopt(p); err != nil {
		return err
	}
	r.o.reached("switched")
	return nil
}

// same reports whether a backend has the keys that are pinned.
func (r *Ring) same(ctx context.Context, b Backend) error {
	for _, k := range r.pin.Keys {
		key, err := b.Get(ctx, k.ID)
		if err != nil {
			return unasked(err)
		}
		defer clear(key)
		if !k.is(key) {
			return reason.Errorf(reason.VaultLocked, "%s gives back another key than it was given", spoken(b.Name()))
		}
	}
	return nil
}

// reseal puts the file under another passphrase, or under none, by one rename.
func (r *Ring) reseal(to Backend) error {
	was, ok := r.file()
	target, isFile := to.(*file)
	if !ok || !isFile {
		return nil
	}
	was.mu.Lock()
	defer was.mu.Unlock()
	_, entries, err := was.read()
	if err != nil {
		return unasked(err)
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if err := target.write(nil, entries); err != nil {
		return unasked(err)
	}
	r.o.reached("resealed")
	target.seen = [len(target.seen)]byte{} // so that it is opened, not remembered
	_, back, err := target.read()
	if err != nil {
		return unasked(err)
	}
	if !slices.EqualFunc(entries, back, func(a, b entry) bool { return a.ID == b.ID && bytes.Equal(a.Key, b.Key) }) {
		return reason.Errorf(reason.VaultLocked, "vault.kek gives back other keys than it was given")
	}
	return nil
}

// file returns the backend "file" of the options.
func (r *Ring) file() (*file, bool) {
	b, err := r.backend(InFile)
	if err != nil {
		return nil, false
	}
	f, ok := b.(*file)
	return f, ok
}
