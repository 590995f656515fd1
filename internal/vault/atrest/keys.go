package atrest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
)

// Ring wraps and unwraps results keys; the vault implements it. about is authenticated with the
// key: a box unwraps only with the same text. Its errors have reasons, among them
// reason.VaultLocked.
type Ring interface {
	// Wrap wraps a key and stores it with keep. The vault's current key does not change before keep
	// returns: keep must not call the vault.
	Wrap(ctx context.Context, about string, key []byte, keep func(by string, box []byte) error) error
	Unwrap(ctx context.Context, about, id string, box []byte) (key []byte, err error)
}

// Wrapped is a stored results key.
type Wrapped struct {
	// ID is a ULID.
	ID string
	// By is the id of the vault's wrapping key, Box the wrapped key.
	By  string
	Box []byte
}

// About returns the text that the vault authenticates with the results key.
func (w Wrapped) About() string { return aboutPrefix + w.ID }

const aboutPrefix = "results/"

// IDOf returns the id of the key in a text of About, "" for other texts.
func IDOf(about string) string {
	id, ok := strings.CutPrefix(about, aboutPrefix)
	if !ok {
		return ""
	}
	return id
}

// Store stores wrapped keys.
type Store interface {
	// ResultsKey returns the key with an id, or the newest for "". If none exists, its ID is "".
	ResultsKey(ctx context.Context, id string) (Wrapped, error)
	// AddResultsKey makes a new key durable.
	AddResultsKey(ctx context.Context, w Wrapped) error
}

// pause is how long a failure to open the current key is cached, so that calls that are refused
// meanwhile do not each query the keyring.
const pause = time.Second

// Keys seals and opens values. It is safe for concurrent use. Unwrapped keys stay in memory until
// Close.
type Keys struct {
	store Store
	now   func() time.Time

	// opening is held while the ring opens the current key.
	opening sync.Mutex
	// ready is closed once the current key is open.
	ready chan struct{}

	mu   sync.RWMutex
	ring Ring // may be nil
	// failed is the result of the last attempt to open a key, at the time tried.
	failed  error
	tried   time.Time
	current string
	secrets map[string]*[keySize]byte
	closed  bool
}

// New returns the keys of a store. Without a ring, no value can be sealed or opened until Use
// sets one.
func New(ring Ring, store Store, now func() time.Time) *Keys {
	return &Keys{ring: ring, store: store, now: now, ready: make(chan struct{}), secrets: make(map[string]*[keySize]byte)}
}

// Use sets the ring.
func (k *Keys) Use(ring Ring) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ring, k.failed = ring, nil
}

// vault returns the ring, or an error if none is set.
func (k *Keys) vault() (Ring, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.ring == nil {
		return nil, errNoRing()
	}
	return k.ring, nil
}

// Opened is closed once values can be sealed.
func (k *Keys) Opened() <-chan struct{} { return k.ready }

// Ready ensures that values can be sealed: it unwraps the newest results key, or creates the first.
// An error, such as reason.VaultLocked, is cached for a second.
func (k *Keys) Ready(ctx context.Context) error {
	if k.IsOpen() {
		return nil
	}
	k.opening.Lock()
	defer k.opening.Unlock()
	if k.IsOpen() {
		return nil
	}
	if err := k.recent(); err != nil {
		return err
	}
	err := k.openCurrent(ctx)
	k.note(ctx, err)
	if err == nil {
		close(k.ready)
	}
	return err
}

// recent returns the cached failure.
func (k *Keys) recent() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.failed != nil && k.now().Sub(k.tried) < pause {
		return k.failed
	}
	return nil
}

// note caches the result of a ring operation. The cancellation of a caller does not affect the
// keys.
func (k *Keys) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed, k.tried = err, k.now()
}

// Problem returns why the last attempt to open the current key failed, or nil.
func (k *Keys) Problem() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.failed
}

// IsOpen reports whether values can be sealed.
func (k *Keys) IsOpen() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current != ""
}

func (k *Keys) openCurrent(ctx context.Context) error {
	ring, err := k.vault()
	if err != nil {
		return err
	}
	newest, err := k.store.ResultsKey(ctx, "")
	if err != nil {
		return err
	}
	if newest.ID == "" {
		return k.make(ctx, ring)
	}
	if err := k.unwrap(ctx, newest); err != nil {
		return err
	}
	return k.use(newest.ID)
}

// make creates the first key. It is durable, wrapped, before any value is sealed.
func (k *Keys) make(ctx context.Context, ring Ring) (err error) {
	w := Wrapped{ID: ulid.Make().String()}
	var secret [keySize]byte
	defer clear(secret[:])
	_, _ = rand.Read(secret[:]) // never fails
	err = ring.Wrap(ctx, w.About(), secret[:], func(by string, box []byte) error {
		w.By, w.Box = by, box
		if err := k.store.AddResultsKey(ctx, w); err != nil {
			return fmt.Errorf("storing the results key: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := k.remember(w.ID, secret[:]); err != nil {
		return err
	}
	return k.use(w.ID)
}

// unwrapOnce calls unwrap, unless the vault was locked less than a pause ago.
func (k *Keys) unwrapOnce(ctx context.Context, w Wrapped) error {
	if err := k.recent(); reason.Of(err) == reason.VaultLocked {
		return err
	}
	err := k.unwrap(ctx, w)
	if reason.Of(err) == reason.VaultLocked {
		k.note(ctx, err)
	}
	return err
}

// unwrap unwraps a key by the ring and caches it.
func (k *Keys) unwrap(ctx context.Context, w Wrapped) error {
	ring, err := k.vault()
	if err != nil {
		return err
	}
	secret, err := ring.Unwrap(ctx, w.About(), w.By, w.Box)
	if err != nil {
		return err
	}
	defer clear(secret)
	if len(secret) != keySize {
		return reason.Errorf(reason.SecretUnreadable, "results key %s has %d bytes, want %d", w.ID, len(secret), keySize)
	}
	return k.remember(w.ID, secret)
}

func (k *Keys) remember(id string, secret []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errClosed()
	}
	if k.secrets[id] == nil {
		kept := [keySize]byte(secret)
		k.secrets[id] = &kept
	}
	return nil
}

// use makes an unwrapped key the current one.
func (k *Keys) use(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errClosed()
	}
	k.current = id
	return nil
}

func (k *Keys) secret(id string) *[keySize]byte {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.secrets[id]
}

// Seal seals a value under the current key, which Ready has opened; it does not block. key is the
// id of that key.
func (k *Keys) Seal(at Place, plain []byte) (key string, box []byte, err error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.current == "" {
		return "", nil, reason.Errorf(reason.VaultLocked, "the key that seals results is not open")
	}
	box, err = seal(k.secrets[k.current], k.current, at, plain)
	return k.current, box, err
}

// Open returns the plain value of a box that was sealed in that place under the key with that id.
// It reuses the memory of the box.
func (k *Keys) Open(ctx context.Context, at Place, key string, box []byte) ([]byte, error) {
	if k.secret(key) == nil {
		w, err := k.store.ResultsKey(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case w.ID == "":
			return nil, reason.Errorf(reason.VerificationFailed, "results key %s is not in the store", key).
				WithRemedy("Keep the files, and restore a copy of the state directory that verifies.")
		}
		if err := k.unwrapOnce(ctx, w); err != nil {
			return nil, err
		}
	}
	return k.OpenKnown(at, key, box)
}

// OpenKnown is Open without blocking: a key that is not open yet yields reason.VaultLocked.
func (k *Keys) OpenKnown(at Place, key string, box []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	secret := k.secrets[key]
	if secret == nil {
		return nil, reason.Errorf(reason.VaultLocked, "results key %s is not unlocked", key)
	}
	return open(secret, key, at, box)
}

// Close wipes the keys. Afterwards no value can be sealed or opened.
func (k *Keys) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, secret := range k.secrets {
		clear(secret[:])
	}
	clear(k.secrets)
	k.current, k.closed = "", true
}

func errNoRing() error {
	return reason.Errorf(reason.VaultLocked, "the store was opened without the vault, which holds the key of its results").
		WithRemedy("Use the running palyrad.")
}

func errClosed() error { return reason.Errorf(reason.ShuttingDown, "the store is closed") }
