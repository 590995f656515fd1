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

// Kind is how the secret of a code gets to the candidate.
type Kind string

// The kinds.
const (
	// PIN is eight digits that a person types.
	PIN Kind = "pin"
	// QR is a picture, or the link in it, with the gateway's address, the
	// fingerprint of its CA and a token of 128 bits.
	QR Kind = "qr"
)

const (
	// MostGuesses is how many guesses a code survives.
	MostGuesses = 5
	// DefaultTTL is how long a code is open where nobody says.
	DefaultTTL  = 10 * time.Minute
	shortestTTL = 30 * time.Second
	longestTTL  = time.Hour
	// pinDigits is the length of a PIN, tokenSize that of a token in bytes.
	pinDigits = 8
	tokenSize = 16
	// idSize is the length of a code's id in bytes. The id is no secret.
	idSize = 5
)

// Request is a code to be made.
type Request struct {
	Kind Kind
	// TTL is how long the code is open; 0 means DefaultTTL.
	TTL time.Duration
	// For says who gets the device: the fields of a device to come are left out.
	For identity.Pairing
}

// State is how far a code is.
type State string

// The states of a code. It is forgotten when it ended.
const (
	// Open takes guesses.
	Open State = "open"
	// Asked was used: a person has to say whether the device gets its certificate.
	Asked State = "asked"
	// Given was used, and the device has its certificate.
	Given State = "given"
)

// Code is what may be told of a code: everything but its secret.
type Code struct {
	ID   string
	Kind Kind
	// For is who gets the device. Its Request and Name are those of the candidate,
	// once there is one.
	For       identity.Pairing
	CreatedAt time.Time
	ExpiresAt time.Time
	State     State
	// Guesses is how many were made of MostGuesses.
	Guesses int
	// What follows is of the candidate that knew the secret.
	ApprovalID string
	Comparison string
	// KeySHA256 is "sha256:" and the digest of its public key.
	KeySHA256 string
	Address   string
}

// Made is a new code with its secret, which nobody can read again.
type Made struct {
	Code
	Secret string
}

func (r *Request) check() error {
	switch {
	case r.Kind != PIN && r.Kind != QR:
		return reason.Errorf(reason.InvalidInput, "%q is no kind of pairing code: pin or qr", r.Kind)
	case r.TTL == 0:
		r.TTL = DefaultTTL
	case r.TTL < shortestTTL || r.TTL > longestTTL:
		return reason.Errorf(reason.InvalidInput, "a pairing code is open for %s to %s, not for %s", shortestTTL, longestTTL, r.TTL)
	}
	return nil
}

// newSecret draws the secret of a code.
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

// newID draws the id of a code: eight letters and digits that people can read to
// each other.
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

// TidyPIN takes what a person types in between the digits away. It refuses what
// is no PIN, so that a slip costs no guess.
func TidyPIN(typed string) (string, error) {
	pin := strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(strings.TrimSpace(typed))
	if len(pin) != pinDigits || strings.Trim(pin, "0123456789") != "" {
		return "", reason.Errorf(reason.InvalidInput, "a PIN has %d digits", pinDigits).
			WithRemedy("Type the PIN as `palyra pairing code` shows it.")
	}
	return pin, nil
}

// hangsOn reports whether a code is one that somebody made, or gives a device to.
func (c *Code) hangsOn(p access.Principal) bool { return c.For.MadeBy == p || c.For.Member == p }
