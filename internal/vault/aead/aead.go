// Package aead seals bytes under a key in palyrad's only storage format: a fresh nonce of 24 bytes,
// followed by the output of XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03). Associated data binds
// a box to its place.
package aead

import (
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = chacha20poly1305.KeySize
	// Overhead is the length of a box minus the length of its plain bytes.
	Overhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
)

// ErrOpen is returned for a box that is damaged or belongs to another key or place.
var ErrOpen = errors.New("the box cannot be decrypted")

// Seal returns the box of plain bytes, bound to about. The key has KeySize bytes.
func Seal(key, plain, about []byte) ([]byte, error) {
	cipher, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, cipher.NonceSize(), len(plain)+Overhead)
	_, _ = rand.Read(nonce) // never fails
	return cipher.Seal(nonce, nonce, plain, about), nil
}

// Open returns the plain bytes of a box, which is not changed, or ErrOpen.
func Open(key, box, about []byte) ([]byte, error) { return open(nil, key, box, about) }

// OpenInPlace is Open, but reuses the memory of the box.
func OpenInPlace(key, box, about []byte) ([]byte, error) {
	return open(box[min(len(box), chacha20poly1305.NonceSizeX):][:0], key, box, about)
}

func open(dst, key, box, about []byte) ([]byte, error) {
	cipher, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	if len(box) < Overhead {
		return nil, ErrOpen
	}
	nonce, sealed := box[:cipher.NonceSize()], box[cipher.NonceSize():]
	plain, err := cipher.Open(dst, nonce, sealed, about)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}
