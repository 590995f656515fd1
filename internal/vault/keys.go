package vault

import (
	"context"
	"sync"

	"palyra/internal/vault/kek"
)

// Keys are the key-encryption keys, of which one is current. The text about is authenticated with a
// wrapped key. Errors have reasons: VaultLocked, VaultKeyMissing, or SecretUnreadable for a damaged
// box.
type Keys interface {
	KeyWrapper
	// IDs returns all keys, including the current one.
	IDs(ctx context.Context) ([]string, error)
	// Rotate creates another key and makes it current; the old keys still unwrap.
	Rotate(ctx context.Context) (id string, err error)
	// Drop deletes keys permanently; the current one is refused.
	Drop(ctx context.Context, ids ...string) error
	Unlock(ctx context.Context, passphrase []byte) error
	// Export returns the keys themselves, the current one last.
	Export(ctx context.Context) ([]kek.Exported, error)
	Status(ctx context.Context) kek.Status
}

// KeyWrapper encrypts data keys. The text about is authenticated with the key.
type KeyWrapper interface {
	Wrap(ctx context.Context, about string, key []byte) (id string, box []byte, err error)
	Unwrap(ctx context.Context, about, id string, box []byte) (key []byte, err error)
	Current(ctx context.Context) (id string, err error)
}

// Box is a stored data key.
type Box struct {
	// About is authenticated with the key, and identifies the box among others of its kind.
	About string
	KEK   string
	Key   []byte
}

// Boxes are the data keys of one kind of objects, such as secrets.
type Boxes interface {
	// StaleBoxes returns at most limit boxes that are not wrapped with the key current, following
	// the box after in the store's order; the zero Box starts.
	StaleBoxes(ctx context.Context, current string, after Box, limit int) ([]Box, error)
	// ReplaceBoxes replaces boxes that have the same About, as one unit. Boxes that were removed or
	// replaced meanwhile are skipped.
	ReplaceBoxes(ctx context.Context, old, fresh []Box) error
}

// Wrapper wraps the data keys of all stored objects with the key-encryption key, and moves them
// from one such key to the next. It is safe for concurrent use.
type Wrapper struct {
	keys  Keys
	kinds []Boxes
	// rotating is held shared from wrapping a key until it is stored, and exclusively while the
	// current key changes. After StaleBoxes was called, no box is therefore stored under an old
	// key.
	rotating sync.RWMutex
	// rekeying allows one rekey at a time.
	rekeying sync.Mutex
	// passed is called after each step of a put and of a rekey; tests interrupt it there.
	passed func(step string) error
}

// NewWrapper returns the only Wrapper of a set of keys, for the boxes in kinds.
func NewWrapper(keys Keys, kinds ...Boxes) *Wrapper {
	return &Wrapper{keys: keys, kinds: kinds, passed: func(string) error { return nil }}
}

// Wrap wraps a data key and stores it with keep. It fails if keep does.
func (w *Wrapper) Wrap(ctx context.Context, about string, key []byte, keep func(Box) error) error {
	w.rotating.RLock()
	defer w.rotating.RUnlock()
	id, box, err := w.keys.Wrap(ctx, about, key)
	if err != nil {
		return err
	}
	if err := w.passed("wrapped"); err != nil {
		return err
	}
	return keep(Box{About: about, KEK: id, Key: box})
}

// Unwrap returns the data key of a box. The caller clears it.
func (w *Wrapper) Unwrap(ctx context.Context, b Box) ([]byte, error) {
	return w.keys.Unwrap(ctx, b.About, b.KEK, b.Key)
}

// Ring wraps keys for packages that do not use Box, such as results at rest (atrest.Ring).
type Ring struct{ Wrapper *Wrapper }

// Wrap wraps a key and stores it with keep. It fails if keep does.
func (r Ring) Wrap(ctx context.Context, about string, key []byte, keep func(by string, box []byte) error) error {
	return r.Wrapper.Wrap(ctx, about, key, func(b Box) error { return keep(b.KEK, b.Key) })
}

// Unwrap returns a key that Wrap wrapped. The caller clears it.
func (r Ring) Unwrap(ctx context.Context, about, id string, box []byte) ([]byte, error) {
	return r.Wrapper.Unwrap(ctx, Box{About: about, KEK: id, Key: box})
}
