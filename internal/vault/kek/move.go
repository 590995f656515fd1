package kek

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"palyra/internal/core/reason"
)

// Target is the destination of a move.
type Target struct {
	Backend string
	// Passphrase returns the passphrase of the backend "file", nil for none. It replaces the
	// passphrase in the options.
	Passphrase func() ([]byte, error)
}

// Move moves all keys of a gateway to another backend, or encrypts the keys in a file with
// another passphrase. A running palyrad MUST NOT use the keys meanwhile. If Move is interrupted
// at any point, the keys are readable in the pinned backend, and copies elsewhere are deleted
// at the next start. If Move returns an error and a Status, the keys were moved, but a later
// step failed.
func Move(ctx context.Context, o Options, to Target) (s Status, err error) {
	r := newRing(o)
	err = r.inTurn(ctx, func() error {
		p, key, err := r.look(ctx)
		if errors.Is(err, errNoPin) {
			return reason.Errorf(reason.NotFound, "moving the key of the vault: the vault has no key yet").
				WithRemedy("Set vault.backend to %q; the next start of palyrad creates it there.", to.Backend)
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
		_ = r.tidy(ctx) // retried later
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
			return fmt.Errorf("the keys were moved, but deleting them in %s failed: %w", spoken(from), err)
		}
		return nil
	})
	if s.Backend != "" {
		if journalErr := r.o.Journal.Pinned(context.WithoutCancel(ctx), s.Backend, s.ID); journalErr != nil && err == nil {
			err = fmt.Errorf("the keys were moved, but journaling it failed: %w", journalErr)
		}
	}
	return s, err
}

// target returns the destination backend.
func (r *Ring) target(to Target) (Backend, error) {
	for _, b := range r.o.Backends {
		switch {
		case b.Name() != to.Backend:
		case to.Backend == InFile:
			return newFile(r.o.Dir, r.o.Gateway, to.Passphrase), nil
		case to.Backend == r.pin.Backend:
			return nil, reason.Errorf(reason.InvalidInput, "the key of the vault is already in %s", spoken(to.Backend)).
				WithRemedy("Check it with `palyrad doctor`.")
		default:
			return b, nil
		}
	}
	var names []string
	for _, b := range r.o.Backends {
		names = append(names, b.Name())
	}
	return nil, reason.Errorf(reason.InvalidInput, "the backend %q is not available on this system", to.Backend).WithRemedy("Use one of %q.", names)
}

// move copies the keys, verifies them as a new palyrad would, and changes the pin.
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

// same returns an error unless a backend has the pinned keys.
func (r *Ring) same(ctx context.Context, b Backend) error {
	for _, k := range r.pin.Keys {
		key, err := b.Get(ctx, k.ID)
		if err != nil {
			return unasked(err)
		}
		defer clear(key)
		if !k.is(key) {
			return reason.Errorf(reason.VaultLocked, "%s returned another key than the stored one", spoken(b.Name()))
		}
	}
	return nil
}

// reseal encrypts the file with another passphrase, or stores it without one. It replaces the file
// by one rename.
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
	target.seen = [len(target.seen)]byte{} // so that the file is decrypted instead of cached
	_, back, err := target.read()
	if err != nil {
		return unasked(err)
	}
	if !slices.EqualFunc(entries, back, func(a, b entry) bool { return a.ID == b.ID && bytes.Equal(a.Key, b.Key) }) {
		return reason.Errorf(reason.VaultLocked, "vault.kek returned other keys than the stored ones")
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
