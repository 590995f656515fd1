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
func Move(ctx context.Context, o Options, to Target) (Status, error) {
	s := keyset{at: newLocator(o)}
	st, err := s.moveTo(ctx, to)
	if st.Backend != "" {
		if journalErr := s.at.Journal.Pinned(context.WithoutCancel(ctx), st.Backend, st.ID); journalErr != nil && err == nil {
			err = fmt.Errorf("the keys were moved, but journaling it failed: %w", journalErr)
		}
	}
	return st, err
}

func (s *keyset) moveTo(ctx context.Context, to Target) (Status, error) {
	p, key, err := s.at.look(ctx)
	if errors.Is(err, errNoPin) {
		return Status{}, reason.Errorf(reason.NotFound, "moving the key of the vault: the vault has no key yet").
			WithRemedy("Set vault.backend to %q; the next start of palyrad creates it there.", to.Backend)
	}
	if err != nil {
		return Status{}, err
	}
	s.have(p, key)
	from := s.pin.Backend
	b, err := s.at.target(from, to)
	if err != nil {
		return Status{}, err
	}
	ctx = context.WithoutCancel(ctx)
	_ = s.tidy(ctx) // retried later
	if from == to.Backend {
		err = s.at.reseal(b)
	} else {
		err = s.move(ctx, b, to)
	}
	if err != nil {
		return Status{}, err
	}
	st := Status{Backend: to.Backend, ID: s.pin.current().ID, Older: len(s.pin.Keys) - 1}
	if err := s.tidy(ctx); err != nil {
		return st, fmt.Errorf("the keys were moved, but deleting them in %s failed: %w", spoken(from), err)
	}
	return st, nil
}

// move copies the keys, verifies them as a new palyrad would, and changes the pin.
func (s *keyset) move(ctx context.Context, b Backend, to Target) error {
	from := s.pin.Backend
	p := s.pin.clone()
	for _, k := range p.Keys {
		p.leave(to.Backend, k.ID)
	}
	if err := s.adopt(p); err != nil {
		return err
	}
	s.at.reached("announced")
	for _, k := range p.Keys {
		key, err := s.key(ctx, k.ID)
		if err != nil {
			return err
		}
		if err := roundTrip(ctx, b, k.ID, key); err != nil {
			return err
		}
		s.at.reached("put " + k.ID)
	}
	again, err := s.at.target(from, to)
	if err != nil {
		return err
	}
	if err := s.pin.same(ctx, again); err != nil {
		return err
	}
	s.at.reached("verified")
	p = s.pin.clone()
	p.Backend = to.Backend
	for _, k := range p.Keys {
		p.settle(to.Backend, k.ID)
		p.leave(from, k.ID)
	}
	if err := s.adopt(p); err != nil {
		return err
	}
	s.at.reached("switched")
	return nil
}

// same returns an error unless a backend has the pinned keys.
func (p *pin) same(ctx context.Context, b Backend) error {
	for _, k := range p.Keys {
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
func (l locator) reseal(to Backend) error {
	was, ok := l.file()
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
	l.reached("resealed")
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
