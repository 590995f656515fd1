package kek

import (
	"bytes"
	"context"
	"errors"

	"palyra/internal/core/reason"
)

// keyset is the verified pin of a gateway with the fetched keys. A change lists a key as left over
// before its backend may have it unused, and pins the key before it is used.
type keyset struct {
	at locator
	// pin and keys are nil while they are not available.
	pin  *pin
	keys map[string][]byte
}

// have sets a pin with its current key.
func (s *keyset) have(p *pin, key []byte) {
	s.forget()
	s.pin, s.keys = p, map[string][]byte{p.current().ID: key}
}

// forget removes the keys from memory.
func (s *keyset) forget() {
	for _, key := range s.keys {
		clear(key)
	}
	s.pin, s.keys = nil, nil
}

// knows reports whether the set has a key, or its pin names it.
func (s *keyset) knows(id string) bool {
	if _, ok := s.keys[id]; ok {
		return true
	}
	_, ok := s.pin.find(id)
	return ok
}

// key returns a key by its id.
func (s *keyset) key(ctx context.Context, id string) ([]byte, error) {
	if key, ok := s.keys[id]; ok {
		return key, nil
	}
	k, ok := s.pin.find(id)
	if !ok {
		return nil, reason.Errorf(reason.VaultKeyMissing, "the vault has no key %s: it was dropped, or belongs to another gateway", id).
			WithRemedy("Restore vault.json and the key from a backup that contains it: %s.", whereIs(s.pin.Backend))
	}
	key, err := s.at.fetch(ctx, s.pin, k)
	if err != nil {
		return nil, err
	}
	s.keys[id] = key
	return key, nil
}

// adopt sets a changed pin, authenticated by its current key.
func (s *keyset) adopt(p *pin) error {
	if err := p.write(s.at.Dir, s.keys[p.current().ID]); err != nil {
		return err
	}
	s.pin = p
	return nil
}

// tidy deletes the left-over keys of changes.
func (s *keyset) tidy(ctx context.Context) error {
	if len(s.pin.Leftover) == 0 {
		return nil
	}
	p := s.pin.clone()
	var errs []error
	for _, l := range s.pin.Leftover {
		b, err := s.at.backend(l.Backend)
		if err == nil {
			err = s.discard(ctx, b, l.ID)
		}
		if err != nil {
			errs = append(errs, unasked(err))
			continue
		}
		s.at.reached("deleted " + l.ID)
		p.settle(l.Backend, l.ID)
	}
	if len(p.Leftover) < len(s.pin.Leftover) {
		errs = append(errs, s.adopt(p))
	}
	return errors.Join(errs...)
}

// discard deletes a key from a backend. A backend without pinned keys is erased.
func (s *keyset) discard(ctx context.Context, b Backend, id string) error {
	if e, ok := b.(eraser); ok && b.Name() != s.pin.Backend {
		return e.erase()
	}
	return b.Delete(ctx, id)
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
