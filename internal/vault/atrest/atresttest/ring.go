// Package atresttest is a vault for tests: it wraps results keys, and can be locked.
package atresttest

import (
	"context"
	"crypto/sha256"
	"sync/atomic"

	"golang.org/x/crypto/chacha20poly1305"

	"palyra/internal/core/reason"
	"palyra/internal/vault/atrest"
)

// Ring wraps under a constant key, so that the boxes of one ring open with another. The zero value
// is unlocked.
type Ring struct {
	// Key names the wrapping key; "" is a valid name.
	Key string
	// Locked makes every use fail. Used counts the uses, including failed ones.
	Locked atomic.Bool
	Used   atomic.Int64
}

var _ atrest.Ring = (*Ring)(nil)

// Wrap implements atrest.Ring.
func (r *Ring) Wrap(_ context.Context, about string, key []byte, keep func(by string, box []byte) error) error {
	if err := r.use(); err != nil {
		return err
	}
	return keep(r.Key, crypt(r.Key, about, func(a aead, nonce []byte) []byte { return a.Seal(nil, nonce, key, []byte(about)) }))
}

// Unwrap implements atrest.Ring.
func (r *Ring) Unwrap(_ context.Context, about, id string, box []byte) (key []byte, err error) {
	if err := r.use(); err != nil {
		return nil, err
	}
	crypt(id, about, func(a aead, nonce []byte) []byte {
		key, err = a.Open(nil, nonce, box, []byte(about))
		return key
	})
	if err != nil {
		return nil, reason.Errorf(reason.SecretUnreadable, "%s does not open: %w", about, err)
	}
	return key, nil
}

func (r *Ring) use() error {
	r.Used.Add(1)
	if r.Locked.Load() {
		return reason.Errorf(reason.VaultLocked, "the vault is locked")
	}
	return nil
}

type aead interface {
	Seal(dst, nonce, plain, data []byte) []byte
	Open(dst, nonce, box, data []byte) ([]byte, error)
}

// crypt calls do with a cipher and a nonce derived from id and about.
func crypt(id, about string, do func(aead, []byte) []byte) []byte {
	secret := sha256.Sum256([]byte("key " + id))
	nonce := sha256.Sum256([]byte("nonce " + about))
	a, err := chacha20poly1305.NewX(secret[:])
	if err != nil {
		panic(err)
	}
	return do(a, nonce[:chacha20poly1305.NonceSizeX])
}
