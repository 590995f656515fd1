// Package atresttest is the vault of tests: it wraps results keys, and can be locked.
package atresttest

import (
	"context"
	"crypto/sha256"
	"sync/atomic"

	"golang.org/x/crypto/chacha20poly1305"

	"palyra/internal/core/reason"
	"palyra/internal/vault/atrest"
)

// Ring wraps under a key that is always the same, so that a store that one ring
// wrote another can read. The zero value is open.
type Ring struct {
	// Key names the key that wraps; "" is one, too.
	Key string
	// Locked has every use refused. Used counts them, the refused ones as well.
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

// crypt gives do a cipher and a nonce that follow from id and about.
func crypt(id, about string, do func(aead, []byte) []byte) []byte {
	secret := sha256.Sum256([]byte("key " + id))
	nonce := sha256.Sum256([]byte("nonce " + about))
	a, err := chacha20poly1305.NewX(secret[:])
	if err != nil {
		panic(err)
	}
	return do(a, nonce[:chacha20poly1305.NonceSizeX])
}
