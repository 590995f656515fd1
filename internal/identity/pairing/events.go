package pairing

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/identity"
)

// The payloads of this package's events; docs/reference/events.md describes them.
type (
	opened struct {
		Kind      Kind             `json:"kind"`
		DeviceID  string           `json:"device_id"`
		Member    access.Principal `json:"member"`
		New       bool             `json:"new"`
		Roles     []access.Role    `json:"roles,omitempty"`
		Owner     access.Principal `json:"owner"`
		ExpiresAt time.Time        `json:"expires_at"`
	}
	proved struct {
		DeviceID  string `json:"device_id"`
		KeySHA256 string `json:"key_sha256"`
		Address   string `json:"address"`
		Name      string `json:"name,omitempty"`
		// Guesses counts the guesses, including this one.
		Guesses int `json:"guesses"`
	}
	pairingEnded struct {
		// Why is "expired", "guesses", "cancelled", "refused" or "member".
		Why      string `json:"why"`
		DeviceID string `json:"device_id"`
		Guesses  int    `json:"guesses"`
	}
	triedEvent struct {
		Address string    `json:"address"`
		Outcome string    `json:"outcome"`
		Count   int       `json:"count"`
		First   time.Time `json:"first"`
		Last    time.Time `json:"last"`
	}
)

func (h *Host) ended(ctx context.Context, actor string, c Code, why string) error {
	return h.cfg.Journal.Record(ctx, event.PairingEnded, actor, c.ID, pairingEnded{Why: why, DeviceID: c.For.DeviceID, Guesses: c.Guesses})
}

// tried is a kind of attempt; the attempts of one minute are one event.
type tried struct {
	address, code, outcome string
}

type triedTimes struct {
	count       int
	first, last time.Time
}

// mostTried limits the number of kinds that are counted separately.
const mostTried = 256

func (h *Host) note(address, code, outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLocked(address, code, outcome)
}

// noteLocked counts an attempt. It omits the id of a code that does not exist, because
// strangers choose such ids.
func (h *Host) noteLocked(address, code, outcome string) {
	if h.codes[code] == nil {
		code = ""
	}
	kind := tried{address, code, outcome}
	if h.tries[kind] == nil && len(h.tries) >= mostTried {
		kind = tried{"others", "", outcome}
	}
	now := time.Now().UTC()
	if h.tries[kind] == nil {
		h.tries[kind] = &triedTimes{first: now}
	}
	h.tries[kind].count++
	h.tries[kind].last = now
}

// recordTries journals the counted attempts. If that fails, the counts are kept for the next time.
func (h *Host) recordTries(ctx context.Context) {
	h.mu.Lock()
	counted := h.tries
	h.tries = map[tried]*triedTimes{}
	h.mu.Unlock()
	for kind, n := range counted {
		err := h.cfg.Journal.Record(ctx, event.PairingTried, identity.Daemon().String(), kind.code, triedEvent{
			Address: kind.address, Outcome: kind.outcome, Count: n.count, First: n.first, Last: n.last,
		})
		if err != nil {
			h.mu.Lock()
			if later := h.tries[kind]; later != nil {
				n.count, n.last = n.count+later.count, later.last
			}
			h.tries[kind] = n
			h.mu.Unlock()
		}
	}
}

// addressKey returns the key for counting the guesses from an address.
func addressKey(address string) string { return limit.Address(address) }
