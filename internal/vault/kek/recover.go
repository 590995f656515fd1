package kek

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"palyra/internal/core/reason"
)

// Exported is a key outside of its backend.
type Exported struct {
	ID  string `json:"id"`
	Key []byte `json:"key"`
}

// Opens reports whether the key wrapped a box.
func (e Exported) Opens(about string, box []byte) bool {
	key, err := unwrap(e.Key, about, e.ID, box)
	clear(key)
	return err == nil
}

// IDs returns the keys that may wrap something, the current one last.
func (r *Ring) IDs(ctx context.Context) (ids []string, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		for _, k := range r.set.pin.Keys {
			ids = append(ids, k.ID)
		}
		return nil
	})
	return ids, err
}

// Export returns the keys themselves, the current one last. The caller clears them.
func (r *Ring) Export(ctx context.Context) (keys []Exported, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		for _, k := range r.set.pin.Keys {
			key, err := r.key(ctx, k.ID)
			if err != nil {
				return err
			}
			keys = append(keys, Exported{k.ID, bytes.Clone(key)})
		}
		return nil
	})
	return keys, err
}

// Recover restores exported keys to the pinned backend. Without a pin, it restores them to the
// configured backend, or to the best backend that works. A working vault receives its missing
// keys as older keys. Keys that do not match an existing pin are refused.
func (r *Ring) Recover(ctx context.Context, keys []Exported) error {
	if len(keys) == 0 {
		return reason.Errorf(reason.InvalidInput, "no key needs recovery")
	}
	return r.inTurn(ctx, func() error {
		p, err := readPin(r.at.Dir, r.at.Gateway)
		switch {
		case errors.Is(err, errNoPin):
			return r.set.repin(ctx, keys)
		case err != nil:
			return err
		case r.again(ctx) == nil:
			return r.set.add(ctx, keys)
		}
		if err := r.at.restore(ctx, p, keys); err != nil {
			return err
		}
		return r.again(ctx)
	})
}

// repin stores keys in a backend and writes a new pin.
func (s *keyset) repin(ctx context.Context, keys []Exported) error {
	b, _, err := s.at.choose(ctx)
	if err != nil {
		return err
	}
	p := &pin{Format: pinFormat, Gateway: s.at.Gateway, Backend: b.Name(), Leftover: []leftover{}}
	for _, e := range keys {
		if err := roundTrip(ctx, b, e.ID, e.Key); err != nil {
			return err
		}
		k, err := newPinned(e.ID, e.Key)
		if err != nil {
			return err
		}
		p.Keys = append(p.Keys, k)
	}
	current := keys[len(keys)-1]
	if err := s.at.Journal.Pinned(ctx, p.Backend, current.ID); err != nil {
		return err
	}
	pin, key, err := s.at.begin(p, bytes.Clone(current.Key))
	if err != nil {
		return err
	}
	s.have(pin, key)
	return nil
}

// restore puts the pinned keys back into their backend.
func (l locator) restore(ctx context.Context, p *pin, keys []Exported) error {
	i := slices.IndexFunc(keys, func(e Exported) bool { return e.ID == p.current().ID && p.current().is(e.Key) })
	if i < 0 {
		return reason.Errorf(reason.VaultKeyMissing, "the export does not have the key %s, which the vault used last", p.current().ID).
			WithRemedy("Recover from a later export.")
	}
	if !p.authentic(keys[i].Key) {
		return changedPin("vault.json was changed without the key of the vault")
	}
	b, err := l.backend(p.Backend)
	if err != nil {
		return err
	}
	for _, e := range keys {
		if k, ok := p.find(e.ID); !ok || !k.is(e.Key) {
			continue
		}
		if err := roundTrip(ctx, b, e.ID, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// add adds missing keys to a vault as older keys.
func (s *keyset) add(ctx context.Context, keys []Exported) error {
	b, err := s.at.backend(s.pin.Backend)
	if err != nil {
		return err
	}
	p := s.pin.clone()
	for _, e := range keys {
		k, err := newPinned(e.ID, e.Key)
		if err != nil {
			return err
		}
		if have, ok := p.find(e.ID); ok {
			if have != k {
				return reason.Errorf(reason.InvalidInput, "the vault has another key with the id %s", e.ID)
			}
		} else {
			p.Keys = slices.Insert(p.Keys, len(p.Keys)-1, k)
		}
		if err := roundTrip(ctx, b, e.ID, e.Key); err != nil {
			return err
		}
	}
	return s.adopt(p)
}
