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

// Life is the validity of a challenge: a person may have to type a passphrase meanwhile.
const Life = 2 * time.Minute

const (
	// NonceSize is the size of a challenge's number in bytes.
	NonceSize = 32
	// maxOpen and maxOfDevice limit the unanswered challenges.
	maxOpen     = 4096
	maxOfDevice = 8
)

// Challenge is a nonce for one proof.
type Challenge struct {
	Nonce [NonceSize]byte
	// Until is the expiry of an unused challenge, in UTC.
	Until time.Time
}

// Book has the open challenges. They are only in memory: a restart ends them. It is safe for
// concurrent use.
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

// NewBook returns an empty book; now is the clock.
func NewBook(now func() time.Time) *Book {
	return &Book{now: now, open: map[[NonceSize]byte]purpose{}}
}

// Challenge issues a challenge to a device for a vote on an approval. An empty approval means
// the registration or confirmation of a key. If a device has too many open challenges, the
// oldest one ends.
func (b *Book) Challenge(device, approval string) (Challenge, error) {
	c := Challenge{Until: b.now().UTC().Add(Life)}
	if _, err := rand.Read(c.Nonce[:]); err != nil {
		return Challenge{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeRoom(device)
	if len(b.open) >= maxOpen {
		return Challenge{}, reason.Errorf(reason.RateLimited, "too many proofs of presence are in progress")
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

// Redeem uses up a challenge. It refuses a challenge that was not issued to the device, that
// was issued for another purpose, or that has expired or was already used.
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
