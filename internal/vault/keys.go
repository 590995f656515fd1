package vault

import (
	"context"
	"sync"

	"palyra/internal/vault/kek"
)

// Keys are the key-encryption keys, of which one is current. What a key is about is
// authenticated with it. Errors have reasons of their own: VaultLocked,
// VaultKeyMissing, or SecretUnreadable for a box that is not what was wrapped.
type Keys interface {
	Wrap(ctx context.Context, about string, key []byte) (id string, box []byte, err error)
	Unwrap(ctx context.Context, about, id string, box []byte) (key []byte, err error)
	Current(ctx context.Context) (id string, err error)
	// IDs are all keys that there are, the current one included.
	IDs(ctx context.Context) ([]string, error)
	// Rotate makes another key and makes it current; the old ones still unwrap.
	Rotate(ctx context.Context) (id string, err error)
	// Drop destroys keys for good; the current one is refused.
	Drop(ctx context.Context, ids ...string) error
	Unlock(ctx context.Context, passphrase []byte) error
	// Export returns the keys themselves, the current one last.
	Export(ctx context.Context) ([]kek.Exported, error)
	Status(ctx context.Context) kek.Status
}

// Box is a data key as it is kept.
type Box struct {
	// About is what the key is bound to, and names the box among those of its kind.
	About string
	KEK   string
	Key   []byte
}

// Boxes are the data keys of one kind of things, such as secrets.
type Boxes interface {
	// StaleBoxes returns at most limit boxes that are not under the key current, those
	// after a box in an order of their own; the zero Box begins.
	StaleBoxes(ctx context.Context, current string, after Box, limit int) ([]Box, error)
	// ReplaceBoxes keeps boxes in place of those about the same, as one unit. Of what
	// is gone, or was replaced meanwhile, nothing is kept.
	ReplaceBoxes(ctx context.Context, old, fresh []Box) error
}

// Wrapper wraps the data keys of everything that is kept under the key-encryption
// key, and takes them all from one such key to the next. It is safe for concurrent
// use.
type Wrapper struct {
	keys  Keys
	kinds []Boxes
	// rotating is held shared from the wrapping of a key until it is kept, and alone
	// while the current key changes: so no box is kept under a key of before once
	// StaleBoxes was asked.
	rotating sync.RWMutex
	// rekeying lets one rekey go on at a time.
	rekeying sync.Mutex
	// passed is asked after each step of a put and of a rekey; tests stop there.
	passed func(step string) error
}

// NewWrapper returns the one Wrapper of a set of keys, for what kinds hold.
func NewWrapper(keys Keys, kinds ...Boxes) *Wrapper {
	return &Wrapper{keys: keys, kinds: kinds, passed: func(string) error { return nil }}
}

// Wrap wraps a data key and has it kept. It fails when keep does.
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

// Unwrap returns the data key of a box, which the caller clears.
func (w *Wrapper) Unwrap(ctx context.Context, b Box) ([]byte, error) {
	return w.keys.Unwrap(ctx, b.About, b.KEK, b.Key)
}
