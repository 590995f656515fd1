// Package aead seals bytes under a key in the one form that palyrad stores: a fresh
// nonce of 24 bytes and, behind it, what XChaCha20-Poly1305 makes of the plain bytes
// (draft-irtf-cfrg-xchacha-03). What they are bound to is associated data.
package aead

import (
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = chacha20poly1305.KeySize
	// Overhead is by how many bytes a box is longer than the plain bytes.
	Overhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
)

// ErrOpen is a box that does not open: it was damaged, or is another's.
var ErrOpen = errors.New("the box does not open")

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

// Open returns the plain bytes of a box, which stays as it is, or ErrOpen.
func Open(key, box, about []byte) ([]byte, error) { return open(nil, key, box, about) }

// OpenInPlace is Open for a box that is not needed any more: it gives its memory.
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
