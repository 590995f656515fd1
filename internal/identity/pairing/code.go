package pairing

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// Kind is the way in which the secret of a code reaches the candidate.
type Kind string

// The kinds.
const (
	// PIN is eight digits that a person types.
	PIN Kind = "pin"
	// QR is an image, or the link in it, with the gateway's address, the fingerprint of its CA and
	// a token of 128 bits.
	QR Kind = "qr"
)

const (
	// MostGuesses is the number of guesses after which a code ends.
	MostGuesses = 5
	// DefaultTTL is the default validity of a code.
	DefaultTTL  = 10 * time.Minute
	shortestTTL = 30 * time.Second
	longestTTL  = time.Hour
	// pinDigits is the length of a PIN, tokenSize the length of a token in bytes.
	pinDigits = 8
	tokenSize = 16
	// idSize is the length of a code's id in bytes. The id is not secret.
	idSize = 5
)

// Request describes a code to be created.
type Request struct {
	Kind Kind
	// TTL is the validity of the code; 0 means DefaultTTL.
	TTL time.Duration
	// For is the recipient of the device, without the fields of the future device.
	For identity.Pairing
}

// State is the state of a code.
type State string

// The states of a code. A code is deleted when it has ended.
const (
	// Open accepts guesses.
	Open State = "open"
	// Asked means that the code was used and an approval of the certificate is pending.
	Asked State = "asked"
	// Given means that the code was used and the device has its certificate.
	Given State = "given"
)

// Code is the public part of a code: everything except its secret.
type Code struct {
	ID   string
	Kind Kind
	// For is the recipient of the device. Its Request and Name come from the candidate, if one has
	// proved the secret.
	For       identity.Pairing
	CreatedAt time.Time
	ExpiresAt time.Time
	State     State
	// Guesses counts the guesses, of MostGuesses.
	Guesses int
	// The fields below belong to the candidate that proved the secret.
	ApprovalID string
	Comparison string
	// KeySHA256 is "sha256:" and the digest of its public key.
	KeySHA256 string
	Address   string
}

// Made is a new code with its secret, which cannot be read again.
type Made struct {
	Code
	Secret string
}

func (r *Request) check() error {
	switch {
	case r.Kind != PIN && r.Kind != QR:
		return reason.Errorf(reason.InvalidInput, "%q is not a kind of pairing code: use pin or qr", r.Kind)
	case r.TTL == 0:
		r.TTL = DefaultTTL
	case r.TTL < shortestTTL || r.TTL > longestTTL:
		return reason.Errorf(reason.InvalidInput, "a pairing code is open for %s to %s, not for %s", shortestTTL, longestTTL, r.TTL)
	}
	return nil
}

// newSecret generates the secret of a code.
func newSecret(kind Kind) (string, error) {
	if kind == QR {
		token, err := random(tokenSize)
		return base64.RawURLEncoding.EncodeToString(token), err
	}
	n, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(pinDigits), nil))
	if err != nil {
		return "", fmt.Errorf("drawing a PIN: %w", err)
	}
	return fmt.Sprintf("%0*d", pinDigits, n), nil
}

// newID generates the id of a code: eight letters and digits that people can read aloud.
func newID() (string, error) {
	b, err := random(idSize)
	return strings.ToLower(base32.NewEncoding("ABCDEFGHJKLMNPQRSTUVWXYZ23456789").EncodeToString(b)), err
}

func random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("drawing a secret: %w", err)
	}
	return b, nil
}

// TidyPIN removes separators between the digits of a typed PIN. It refuses an invalid PIN, so that
// a typing error costs no guess.
func TidyPIN(typed string) (string, error) {
	pin := strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(strings.TrimSpace(typed))
	if len(pin) != pinDigits || strings.Trim(pin, "0123456789") != "" {
		return "", reason.Errorf(reason.InvalidInput, "a PIN has %d digits", pinDigits).
			WithRemedy("Type the PIN as `palyra pairing code` shows it.")
	}
	return pin, nil
}

// hangsOn reports whether p created a code, or receives its device.
func (c *Code) hangsOn(p access.Principal) bool { return c.For.MadeBy == p || c.For.Member == p }
