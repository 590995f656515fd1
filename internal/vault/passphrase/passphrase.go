// Package passphrase seals small texts with a passphrase: the key by Argon2id (RFC 9106), the text
// by XChaCha20-Poly1305.
//
// The format of age is not used here: its scrypt needs as much memory for less protection.
package passphrase

import (
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"palyra/internal/core/reason"
)

// Least is the minimum length of a passphrase in bytes.
const Least = 8

const (
	saltSize       = 16
	usualTime      = 3
	usualMemoryKiB = 64 << 10
	usualThreads   = 4
	// Larger parameters are refused: such a file would only consume time or memory.
	maxTime      = 100
	maxMemoryKiB = 1 << 20
)

// The errors of Open.
var (
	ErrForm  = errors.New("it is not sealed in palyra's format")
	ErrWrong = errors.New("the passphrase is wrong")
)

// Sealed is a text sealed with a passphrase.
type Sealed struct {
	Time      uint32 `json:"argon2id_time"`
	MemoryKiB uint32 `json:"argon2id_memory_kib"`
	Threads   uint8  `json:"argon2id_threads"`
	Salt      []byte `json:"salt"`
	Nonce     []byte `json:"nonce"`
	Box       []byte `json:"box"`
}

// Seal seals a text; about is its associated data, which opening it requires.
func Seal(phrase, text, about []byte) (*Sealed, error) {
	if len(phrase) < Least {
		return nil, reason.Errorf(reason.InvalidInput, "a passphrase must have at least %d characters", Least)
	}
	s := &Sealed{Time: usualTime, MemoryKiB: usualMemoryKiB, Threads: usualThreads, Salt: make([]byte, saltSize), Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	for _, random := range [][]byte{s.Salt, s.Nonce} {
		if _, err := rand.Read(random); err != nil {
			return nil, err
		}
	}
	aead, err := chacha20poly1305.NewX(s.key(phrase))
	if err != nil {
		return nil, err
	}
	s.Box = aead.Seal(nil, s.Nonce, text, about)
	return s, nil
}

// Open returns the text; the error is ErrForm or ErrWrong. A damaged box cannot be distinguished
// from a wrong passphrase.
func (s *Sealed) Open(phrase, about []byte) ([]byte, error) {
	if s == nil || s.Time < 1 || s.Time > maxTime || s.Threads < 1 || s.MemoryKiB < 8 || s.MemoryKiB > maxMemoryKiB || len(s.Nonce) != chacha20poly1305.NonceSizeX {
		return nil, ErrForm
	}
	aead, err := chacha20poly1305.NewX(s.key(phrase))
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, s.Nonce, s.Box, about)
	if err != nil {
		return nil, ErrWrong
	}
	return text, nil
}

func (s *Sealed) key(phrase []byte) []byte {
	return argon2.IDKey(phrase, s.Salt, s.Time, s.MemoryKiB, s.Threads, chacha20poly1305.KeySize)
}
