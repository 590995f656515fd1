package kek

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// Portable contains the files of a state directory that stores the keys of a gateway itself,
// independent of their current backend. The caller clears Key.
type Portable struct {
	// Backend is the current backend of the keys.
	Backend string
	// Pin is vault.json, and Key is vault.kek without a passphrase.
	Pin, Key []byte
}

// Carry returns a portable copy of the keys of a gateway, and changes nothing. The copy is nil
// if the gateway has no keys, or if the state directory already contains them.
func Carry(ctx context.Context, o Options) (*Portable, error) {
	s := keyset{at: newLocator(o)}
	p, current, err := s.at.look(ctx)
	if errors.Is(err, errNoPin) {
		return nil, nil
	}
	if held, unread := readPin(o.Dir, o.Gateway); unread == nil && held.Backend == InFile {
		_, gone := os.Stat(statedir.VaultKey(o.Dir))
		if errors.Is(gone, fs.ErrNotExist) {
			return nil, missing(InFile, held.current().ID)
		}
		return nil, gone // an unknown passphrase must not prevent copying the file
	}
	if err != nil {
		return nil, err
	}
	s.have(p, current)
	defer s.forget()
	return s.carry(ctx)
}

func (s *keyset) carry(ctx context.Context) (*Portable, error) {
	entries := make([]entry, 0, len(s.pin.Keys))
	for _, k := range s.pin.Keys {
		key, err := s.key(ctx, k.ID)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{k.ID, key})
	}
	p := s.pin.clone()
	// Left-over keys are deleted by the original gateway.
	p.Backend, p.Leftover = InFile, []leftover{}
	pin, err := p.text(s.keys[p.current().ID])
	if err != nil {
		return nil, err
	}
	key, err := newFile(s.at.Dir, s.at.Gateway, nil).text(nil, entries)
	if err != nil {
		return nil, err
	}
	return &Portable{Backend: s.pin.Backend, Pin: pin, Key: key}, nil
}

// NotCarried returns one text with the cause and the remedy of a failed Carry.
func NotCarried(err error) string {
	why := reason.Known(err, reason.VaultLocked)
	return why.Message + ". " + why.NextStep()
}
