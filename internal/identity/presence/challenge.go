// Package presence implements the proof of a person's presence at a vote: a signature over the vote
// and a nonce from the gateway, by a key that must be unlocked for each use. It is pure: it uses
// neither network nor files.
package presence

import (
	"crypto/rand"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// Life is the validity of a challenge: a person types a passphrase meanwhile.
const Life = 2 * time.Minute

const (
	// NonceSize is the size of a challenge's number in bytes.
	NonceSize = 32
	// maxOpen and maxOfDevice limit the unanswered challenges.
	maxOpen     = 4096
	maxOfDevice = 8
)

// Challenge is a number for one proof.
type Challenge struct {
	Nonce [NonceSize]byte
	// Until is its expiry unless it was used, in UTC.
	Until time.Time
}

// Book has the challenges that are open. They live in memory alone: a restart ends
// them. It is safe for concurrent use.
type Book struct {
	now func() time.Time

	mu   sync.Mutex
	open map[[NonceSize]byte]purpose
}

// purpose is the purpose of a challenge; approval is "" for the registration or confirmation of a
// key.
type purpose struct {
	device, approval string
	until            time.Time
}

// NewBook makes an empty book; now is the clock.
func NewBook(now func() time.Time) *Book {
	return &Book{now: now, open: map[[NonceSize]byte]purpose{}}
}

// Challenge gives a device a number for a vote on an approval, or, for "", for the
// registration or confirmation of a key. Of too many open ones of a device the oldest ends.
func (b *Book) Challenge(device, approval string) (Challenge, error) {
	c := Challenge{Until: b.now().UTC().Add(Life)}
	if _, err := rand.Read(c.Nonce[:]); err != nil {
		return Challenge{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeRoom(device)
	if len(b.open) >= maxOpen {
		return Challenge{}, reason.Errorf(reason.RateLimited, "too many proofs of presence are begun at the moment")
	}
	b.open[c.Nonce] = purpose{device: device, approval: approval, until: c.Until}
	return c, nil
}

// makeRoom removes expired challenges, and the oldest one of a device that has reached its limit.
func (b *Book) makeRoom(device string) {
	var oldest [NonceSize]byte
	var until time.Time
	mine := 0
	for nonce, p := range b.open {
		switch {
		case !b.now().Before(p.until):
			delete(b.open, nonce)
		case p.device == device:
			mine++
			if until.IsZero() || p.until.Before(until) {
				oldest, until = nonce, p.until
			}
		}
	}
	if mine >= maxOfDevice {
		delete(b.open, oldest)
	}
}

// Redeem uses a challenge up. It refuses one that the device was not given, that was
// given for something else, or that has ended or was used.
func (b *Book) Redeem(device, approval string, nonce []byte) error {
	if len(nonce) != NonceSize {
		return notProven("its number has %d bytes, not %d", len(nonce), NonceSize)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.open[[NonceSize]byte(nonce)]
	if !known || p.device != device {
		return notProven("its number was not given to this device, or was used already")
	}
	delete(b.open, [NonceSize]byte(nonce))
	switch {
	case p.approval != approval:
		return notProven("its number was given for something else")
	case !b.now().Before(p.until):
		return notProven("it came later than %s after its number was given", Life)
	}
	return nil
}

func notProven(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.PresenceNotProven, "the proof of presence is refused: "+format, args...).
		WithRemedy("Nothing was voted or registered. Try again.")
}
