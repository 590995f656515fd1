package kek

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// Portable is what the files of a state directory are that holds the keys of a gateway
// itself, wherever they are kept now. The caller clears Key.
type Portable struct {
	// Backend is where the keys are now.
	Backend string
	// Pin is vault.json, and Key is vault.kek without a passphrase.
	Pin, Key []byte
}

// Carry returns the keys of a gateway for another place, and changes nothing. It is nil
// where there are none, and where the state directory holds them already.
func Carry(ctx context.Context, o Options) (*Portable, error) {
	r := newRing(o)
	p, current, err := r.look(ctx)
	if errors.Is(err, errNoPin) {
		return nil, nil
	}
	if held, unread := readPin(o.Dir, o.Gateway); unread == nil && held.Backend == InFile {
		_, gone := os.Stat(statedir.VaultKey(o.Dir))
		if errors.Is(gone, fs.ErrNotExist) {
			return nil, missing(InFile, held.current().ID)
		}
		return nil, gone // a passphrase that is not known here keeps nobody from copying the file
	}
	if err != nil {
		return nil, err
	}
	r.have(p, current)
	defer r.forget()
	return r.carry(ctx)
}

func (r *Ring) carry(ctx context.Context) (*Portable, error) {
	entries := make([]entry, 0, len(r.pin.Keys))
	for _, k := range r.pin.Keys {
		key, err := r.key(ctx, k.ID)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{k.ID, key})
	}
	p := r.pin.clone()
	// What is left over elsewhere is for the gateway of there to delete.
	p.Backend, p.Leftover = InFile, []leftover{}
	pin, err := p.text(r.keys[p.current().ID])
	if err != nil {
		return nil, err
	}
	key, err := newFile(r.o.Dir, r.o.Gateway, nil).text(nil, entries)
	if err != nil {
		return nil, err
	}
	return &Portable{Backend: r.pin.Backend, Pin: pin, Key: key}, nil
}

// NotCarried says why keys cannot be had for another place, and what can be done, in one
// text.
func NotCarried(err error) string {
	why := reason.Known(err, reason.VaultLocked)
	return why.Message + ". " + why.NextStep()
}
