// Package kek stores the key-encryption keys of one gateway, which wrap the keys of the vault and
// of results at rest. They are in a file, in the keyring of the user's session, or under DPAPI.
// Their location is pinned, and no other location is accepted.
//
// If the backend does not answer, no new key is created: a new key could not open the stored
// data and would hide the failure. The pin has a MAC under the key, and the journal records
// that a key exists, so that a lost pin locks the vault. A key from a keyring is cached for a
// minute, because a query per call costs milliseconds. Without any query, locking the keyring
// would have no effect. palyrad never prompts for a keyring's password. Replaced keys stay in
// the pin until they are deleted, so that an interrupted rotation or move leaves no unknown
// copy.
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
	// holdTime is how long a key is cached before its backend is queried again: locking a keyring
	// locks the vault within this time.
	holdTime = time.Minute
	// retryTime is the pause after a failed query of a backend.
	retryTime = time.Second
)

// Options configure a Ring. Dir, Gateway and Backend are required.
type Options struct {
	// Dir is the state directory, whose lock the caller holds.
	Dir string
	// Gateway is the gateway's id.
	Gateway string
	// Backend is the value of vault.backend.
	Backend string
	// Backends are the available backends, the best first; nil means this system's.
	Backends []Backend
	// Passphrase returns the passphrase of the backend "file", nil for none.
	Passphrase func() ([]byte, error)
	// Env returns the environment variables with the location of the session's keyring; nil means
	// no session.
	Env func(string) string
	// Journal records the existence of a key; nil records nothing.
	Journal Journal
	// Log receives changes of the keys' availability; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// reached is called at each step of a change; tests interrupt it there.
	reached func(step string)
}

// Journal records the keys of a gateway, so that no new key is created if the pin of the
// existing key is lost.
type Journal interface {
	// Known reports whether a key was ever pinned.
	Known(ctx context.Context) (bool, error)
	// Pinned durably records the current key and its location.
	Pinned(ctx context.Context, backend, id string) error
}

// forgetful records nothing.
type forgetful struct{}

func (forgetful) Known(context.Context) (bool, error) { return false, nil }

func (forgetful) Pinned(context.Context, string, string) error { return nil }

// Ring has the keys of one gateway: the current key, which wraps all new data keys, and older
// keys that still wrap data keys. It is safe for concurrent use, but must not be used within a
// transaction of the store that its journal writes to.
type Ring struct {
	at locator
	// turn is held during a query or a change; waiting for it ends with the caller's context.
	turn chan struct{}
	set  keyset
	// asked is the time of the last query of the backend, failed the error of that query.
	asked  time.Time
	failed error
	// since is the time of the last change of the state.
	since time.Time
	// recorded is true if the journal has a record of a key.
	recorded bool
}

// Open returns the keys of a gateway. It does not query a backend: the first use fetches the
// keys, or creates them on the first start. The error reports a setting that contradicts the
// pin.
func Open(o Options) (*Ring, error) {
	// A faulty pin is reported when the keys are needed.
	if p, err := readPin(o.Dir, o.Gateway); err == nil {
		if err := p.allows(o.Backend); err != nil {
			return nil, err
		}
	}
	at := newLocator(o)
	return &Ring{at: at, turn: make(chan struct{}, 1), set: keyset{at: at}, since: at.Now()}, nil
}

// inTurn calls do while no other query or change is active.
func (r *Ring) inTurn(ctx context.Context, do func() error) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	return do()
}

// Wrap encrypts a key with the current KEK, whose id it returns. Unwrapping requires the same
// about. The box is the nonce of XChaCha20-Poly1305, the ciphertext and the tag.
func (r *Ring) Wrap(ctx context.Context, about string, key []byte) (id string, box []byte, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		id = r.set.pin.current().ID
		var err error
		box, err = aead.Seal(r.set.keys[id], key, associated(id, about))
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return id, box, nil
}

// Unwrap returns the key in a box that was wrapped by the KEK with the id.
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
		return nil, reason.Errorf(reason.SecretUnreadable, "unwrapping a key with %s: the key is damaged or belongs to another record", id)
	}
	return key, err
}

// associated returns the associated data of a box.
func associated(id, about string) []byte { return []byte("palyra kek v1\x00" + id + "\x00" + about) }

// Current returns the id of the current KEK.
func (r *Ring) Current(ctx context.Context) (id string, err error) {
	err = r.inTurn(ctx, func() error {
		if err := r.load(ctx); err != nil {
			return err
		}
		id = r.set.pin.current().ID
		return nil
	})
	return id, err
}

// Unlock sets the passphrase of the backend "file", until palyrad stops.
func (r *Ring) Unlock(ctx context.Context, passphrase []byte) error {
	return r.inTurn(ctx, func() error {
		name := InFile
		if p, err := readPin(r.at.Dir, r.at.Gateway); err == nil {
			name = p.Backend
		}
		b, err := r.at.backend(name)
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

// newKey creates a KEK.
func newKey() (id string, key []byte, err error) {
	random := make([]byte, 8+keySize)
	if _, err := rand.Read(random); err != nil {
		return "", nil, err
	}
	return "kek_" + hex.EncodeToString(random[:8]), random[8:], nil
}
