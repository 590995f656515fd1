// Package atrest keeps what calls leave behind unreadable to whoever has only the
// store's file: results, arguments, texts of runs, and what people were shown. Each
// value is sealed by XChaCha20-Poly1305 under a results key, and a results key is
// wrapped by the vault. A sealed value opens only in its own place: table, row and
// digest are authenticated with it. The package knows bytes and keys, no tables.
package atrest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/vault/aead"
)

const (
	// keySize is that of a results key, in bytes.
	keySize = aead.KeySize
	// Overhead is by how many bytes a sealed value is longer than the plain one.
	Overhead = aead.Overhead
	// domain keeps what is authenticated here apart from anything else.
	domain = "palyra/results/v1"
)

// Place is where a sealed value stands. It opens in no other.
type Place struct {
	Table, Row string
	// Digest is the SHA-256 of the plain value.
	Digest [32]byte
}

// bind is the associated data of a value: each part with its length before it, so
// that no two places have the same.
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

// open returns the plain value of a box, in the memory of the box.
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

// damaged is the error for a value that is not what was sealed in its place.
func damaged(at Place) error {
	return reason.Errorf(reason.VerificationFailed, "%s sha256:%x is damaged, or was put in the place of another", at.Table, at.Digest).
		WithRemedy("The others can be read. Keep the files, and restore a copy of the state directory that verifies.")
}
