package spake2plus

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"

	"filippo.io/nistec"
	"golang.org/x/crypto/argon2"
)

// SaltSize is the size of a salt in bytes.
const SaltSize = 16

// The cost of deriving a Secret from a PIN: Argon2id (RFC 9106) in two passes over 32 MiB with
// one lane. This exceeds OWASP's minimum (two passes over 19 MiB), and both sides together need
// far less than 300 ms of processor time. The parameters are part of the protocol: other values
// result in another key.
const (
	argonPasses = 2
	argonMemory = 32 << 10 // KiB
	argonLanes  = 1
)

// Identities name both sides. They are inputs of the PIN derivation and of the transcript, so
// that a record for one pair is useless for another. Values that are known only when the
// exchange begins belong in its Context.
type Identities struct {
	Prover, Verifier string
}

func (i Identities) check() error {
	if i.Prover == "" || i.Verifier == "" {
		return errors.New("both sides need an identity")
	}
	if i.Prover == i.Verifier {
		return errors.New("both sides have the same identity")
	}
	return nil
}

// Secret is the prover's secret derived from a PIN: w0 and w1 of the RFC.
type Secret struct {
	sealed
	ids    Identities
	w0, w1 scalar
}

// Record is the verifier's record of a PIN: w0 and L of the RFC. A reader of the record can
// test PINs at the cost of one Derive each, and cannot act as the prover without a matching
// PIN.
type Record struct {
	sealed
	ids Identities
	w0  scalar
	l   *nistec.P256Point
}

// NewSalt generates a salt. It is not secret; the verifier sends it to the prover.
func NewSalt() ([]byte, error) {
	salt := make([]byte, SaltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("drawing a salt: %w", err)
	}
	return salt, nil
}

// Derive derives the secret of a PIN. pin is the text that a person read or typed, which the
// caller has normalized on both sides. It takes tens of milliseconds and 32 MiB on purpose.
func Derive(pin, salt []byte, ids Identities) (*Secret, error) {
	switch {
	case len(pin) == 0:
		return nil, errors.New("the PIN is empty")
	case len(salt) != SaltSize:
		return nil, fmt.Errorf("the salt has %d bytes, not %d", len(salt), SaltSize)
	}
	if err := ids.check(); err != nil {
		return nil, err
	}
	password := appendField(nil, pin)
	password = appendField(password, []byte(ids.Prover))
	password = appendField(password, []byte(ids.Verifier))
	out := argon2.IDKey(password, salt, argonPasses, argonMemory, argonLanes, 2*wideSize)
	clear(password)
	return newSecret([2 * wideSize]byte(out), ids)
}

// newSecret creates a Secret from the two halves of the derived PIN.
func newSecret(out [2 * wideSize]byte, ids Identities) (*Secret, error) {
	w0, err := reduce([wideSize]byte(out[:wideSize]))
	if err != nil {
		return nil, err
	}
	w1, err := reduce([wideSize]byte(out[wideSize:]))
	if err != nil {
		return nil, err
	}
	var zero scalar
	if subtle.ConstantTimeCompare(w0[:], zero[:])|subtle.ConstantTimeCompare(w1[:], zero[:]) == 1 {
		return nil, errors.New("the PIN gives a secret of zero; use another salt")
	}
	return &Secret{ids: ids, w0: w0, w1: w1}, nil
}

// Record returns the verifier's record. The creator of the PIN calls it immediately and
// discards PIN and secret.
func (s *Secret) Record() (*Record, error) {
	l, err := nistec.NewP256Point().ScalarBaseMult(s.w1[:])
	if err != nil {
		return nil, fmt.Errorf("multiplying the generator: %w", err)
	}
	return &Record{ids: s.ids, w0: s.w0, l: l}, nil
}
