package kek

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"palyra/internal/core/reason"
)

// Rotate creates a KEK, makes it current and returns its id; the older KEKs stay readable. If
// it is interrupted at any point, the current KEK is the old or the new KEK. A KEK that wraps
// no key is deleted at the next start.
func (r *Ring) Rotate(ctx context.Context) (id string, err error) {
	var backend string
	err = r.inTurn(ctx, func() error {
		// A change starts from the current pin, not from a cached one.
		if err := r.again(ctx); err != nil {
			return err
		}
		backend = r.set.pin.Backend
		id, err = r.set.rotate(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return "", err
	}
	if err := r.at.Journal.Pinned(context.WithoutCancel(ctx), backend, id); err != nil {
		return id, fmt.Errorf("the vault's key was rotated, but journaling it failed: %w", err)
	}
	return id, nil
}

func (s *keyset) rotate(ctx context.Context) (string, error) {
	b, err := s.at.backend(s.pin.Backend)
	if err != nil {
		return "", err
	}
	id, key, err := newKey()
	if err != nil {
		return "", err
	}
	k, err := newPinned(id, key)
	if err != nil {
		return "", err
	}
	// The key is listed as left over until it is current, so that its possible location is
	// recorded.
	p := s.pin.clone()
	p.leave(b.Name(), id)
	if err := s.adopt(p); err != nil {
		return "", err
	}
	s.at.reached("announced")
	if err := roundTrip(ctx, b, id, key); err != nil {
		return "", errors.Join(err, s.tidy(ctx))
	}
	s.at.reached("put")
	p = s.pin.clone()
	p.settle(b.Name(), id)
	p.Keys = append(p.Keys, k)
	s.keys[id] = key
	if err := s.adopt(p); err != nil {
		return "", err
	}
	s.at.reached("pinned")
	return id, nil
}

// Drop deletes older KEKs. The caller must have wrapped all data keys that they wrap again with
// the current KEK. Missing KEKs are not an error. After an error, a KEK may still exist even if
// it is no longer in use.
func (r *Ring) Drop(ctx context.Context, ids ...string) error {
	return r.inTurn(ctx, func() error {
		if err := r.again(ctx); err != nil {
			return err
		}
		if slices.Contains(ids, r.set.pin.current().ID) {
			return reason.Errorf(reason.InvalidInput, "the current key of the vault cannot be dropped").WithRemedy("Rotate it first.")
		}
		return r.set.drop(context.WithoutCancel(ctx), ids)
	})
}

func (s *keyset) drop(ctx context.Context, ids []string) error {
	p := s.pin.clone()
	for _, id := range ids {
		if _, ok := p.find(id); ok {
			p.leave(p.Backend, id)
		}
	}
	p.Keys = slices.DeleteFunc(p.Keys, func(k pinned) bool { return slices.Contains(ids, k.ID) })
	if err := s.adopt(p); err != nil {
		return err
	}
	for _, id := range ids {
		clear(s.keys[id])
		delete(s.keys, id)
	}
	s.at.reached("unpinned")
	return s.tidy(ctx)
}
