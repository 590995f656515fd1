// Package atrest encrypts stored data of calls: results, arguments, texts of runs, and displayed
// prompts. The store's file alone does not reveal them. Each value is sealed by XChaCha20-Poly1305
// under a results key, and a results key is wrapped by the vault. A sealed value opens only in its
// own place: table, row and digest are authenticated with it. The package handles bytes and keys,
// not tables.
package atrest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/vault/aead"
)

const (
	// keySize is the length of a results key, in bytes.
	keySize = aead.KeySize
	// Overhead is the length of a sealed value minus the length of the plain one.
	Overhead = aead.Overhead
	// domain separates the authenticated data of this package from others.
	domain = "palyra/results/v1"
)

// Place is the location of a sealed value. The value does not open at another location.
type Place struct {
	Table, Row string
	// Digest is the SHA-256 of the plain value.
	Digest [32]byte
}

// bind returns the associated data of a value: each part preceded by its length, so that it is
// unique for a place.
func (p Place) bind(key string) []byte {
	data := make([]byte, 0, len(domain)+len(p.Table)+len(p.Row)+len(key)+len(p.Digest)+4*4)
	for _, part := range []string{domain, p.Table, p.Row, key} {
		data = binary.BigEndian.AppendUint32(data, uint32(len(part)))
		data = append(data, part...)
	}
	return append(data, p.Digest[:]...)
}

// seal returns the box of a value in its place.
func seal(secret *[keySize]byte, key string, at Place, plain []byte) ([]byte, error) {
	box, err := aead.Seal(secret[:], plain, at.bind(key))
	if err != nil {
		return nil, fmt.Errorf("sealing a result: %w", err)
	}
	return box, nil
}

// open returns the plain value of a box, reusing the memory of the box.
func open(secret *[keySize]byte, key string, at Place, box []byte) ([]byte, error) {
	plain, err := aead.OpenInPlace(secret[:], box, at.bind(key))
	if errors.Is(err, aead.ErrOpen) {
		return nil, damaged(at)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a result: %w", err)
	}
	return plain, nil
}

// damaged returns the error of a value that was not sealed in its place.
func damaged(at Place) error {
	return reason.Errorf(reason.VerificationFailed, "%s sha256:%x is damaged, or was moved from another place", at.Table, at.Digest).
		WithRemedy("Other values are readable. Keep the files, and restore a copy of the state directory that verifies.")
}
