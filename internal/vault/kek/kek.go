// Package kek keeps the key-encryption keys of one gateway: the keys that wrap those of
// the vault and of results at rest. They are in a file, in the keyring of the user's
// session, or under DPAPI; where they were made is pinned, and no other place is taken
// for it.
package kek

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/vault/aead"
)

const (
	keySize = aead.KeySize
	// holdTime is how long a key is used before its backend is asked for it again: a
	// keyring that was locked locks the vault within it.
	holdTime = time.Minute
	// retryTime is how long a backend that could not be asked is left in peace.
	retryTime = time.Second
)

// Options say whose keys they are and where. Dir, Gateway and Backend are required.
type Options struct {
	// Dir is the state directory, whose lock the caller holds.
	Dir string
	// Gateway is the gateway's id.
	Gateway string
	// Backend is the word of vault.backend.
	Backend string
	// Backends are those that there are, the best first; nil means those of this
	// system.
	Backends []Backend
	// Passphrase returns that of the backend "file", nil for none.
	Passphrase func() ([]byte, error)
	// Env looks a variable up that says where the keyring of the session is; nil means
	// that there is no session.
	Env func(string) string
	// Journal remembers that there was a key; nil is one that remembers nothing.
	Journal Journal
	// Log is told when the keys can be used no more, or again; nil is nobody.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// reached is told of each step of a change; tests end it there.
	reached func(step string)
}

// Journal is what a gateway remembers of its keys, so that no new one is made where the
// pin of the old one was lost.
type Journal interface {
	// Known reports whether a key was ever pinned.
	Known(ctx context.Context) (bool, error)
	// Pinned notes durably which key is the current one, and where.
	Pinned(ctx context.Context, backend, id string) error
}

// forgetful remembers nothing.
type forgetful struct{}

func (forgetful) Known(context.Context) (bool, error) { return false, nil }

func (forgetful) Pinned(context.Context, string, string) error { return nil }

// Ring has the keys of one gateway: the current one, by which everything is wrapped, and
// older ones until nothing is wrapped by them any more. It may be used by many at once,
// and not from within a transaction of the store that its journal writes to.
type Ring struct {
	o Options
	// turn is held by the one that asks or changes; others wait as long as they like.
	turn chan struct{}

	// What is pinned, and the keys that were fetched; nil while they cannot be used.
	pin  *pin
	keys map[string][]byte
	// asked is when the backend was asked last, failed why that came to nothing.
	asked  time.Time
	failed error
	// since is since when it has been as it is.
	since time.Time
	// recorded says that the journal knows of a key.
	recorded bool
}

// Open returns the keys of a gateway. No backend is asked yet: the keys are fetched, and
// at the first start of a gateway made, when they are needed first. An error is a
// setting that contradicts what is pinned.
func Open(o Options) (*Ring, error) {
	r := newRing(o)
	// What is wrong with the pin itself is said when the keys are needed.
	if p, err := readPin(o.Dir, o.Gateway); err == nil {
		if err := p.allows(o.Backend); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func newRing(o Options) *Ring {
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
	return &Ring{o: o, turn: make(chan struct{}, 1), since: o.Now()}
}

// inTurn does something while nobody else asks or changes.
func (r *Ring) inTurn(ctx context.Context, do func() error) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	return do()
}

// Wrap encrypts a key by the current KEK, whose id it returns. Only what names the same
// about unwraps it. The box is the nonce of XChaCha20-Poly1305, the ciphertext and the
// tag.
func (r *Ring) Wrap(ctx context.Context, about string, key []byte) (id string, box []byte, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		id = r.pin.current().ID
		var err error
		box, err = aead.Seal(r.keys[id], key, associated(id, about))
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return id, box, nil
}

// Unwrap returns the key in a box, by the KEK of that id.
func (r *Ring) Unwrap(ctx context.Context, about, id string, box []byte) (key []byte, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		by, err := r.key(ctx, id)
		if err != nil {
			return err
		}
		key, err = unwrap(by, about, id, box)
		return err
	})
	return key, err
}

func unwrap(by []byte, about, id string, box []byte) ([]byte, error) {
	key, err := aead.Open(by, box, associated(id, about))
	if errors.Is(err, aead.ErrOpen) {
		return nil, reason.Errorf(reason.SecretUnreadable, "what is wrapped by %s does not open: it was damaged, or is another's", id)
	}
	return key, err
}

// associated is the associated data of a box.
func associated(id, about string) []byte { return []byte("palyra kek v1\x00" + id + "\x00" + about) }

// Current returns the id of the KEK by which everything is wrapped now.
func (r *Ring) Current(ctx context.Context) (id string, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		id = r.pin.current().ID
		return nil
	})
	return id, err
}

// Unlock gives the passphrase of the backend "file", until palyrad stops.
func (r *Ring) Unlock(ctx context.Context, passphrase []byte) error {
	return r.inTurn(ctx, func() error {
		name := InFile
		if p, err := readPin(r.o.Dir, r.o.Gateway); err == nil {
			name = p.Backend
		}
		b, err := r.backend(name)
		if err != nil {
			return err
		}
		u, ok := b.(unlocker)
		if !ok {
			return untaken(name)
		}
		if err := u.unlock(passphrase); reason.Of(err) == reason.InvalidInput {
			return err
		} else if err != nil {
			return unasked(err)
		}
		return r.again(ctx)
	})
}

// newKey makes a KEK.
func newKey() (id string, key []byte, err error) {
	random := make([]byte, 8+keySize)
	if _, err := rand.Read(random); err != nil {
		return "", nil, err
	}
	return "kek_" + hex.EncodeToString(random[:8]), random[8:], nil
}
