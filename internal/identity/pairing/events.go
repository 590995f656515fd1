package pairing

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
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

// recordEnd journals the end of a code.
func recordEnd(ctx context.Context, journal Journal, actor string, c Code, why string) error {
	return journal.Record(ctx, event.PairingEnded, actor, c.ID, pairingEnded{Why: why, DeviceID: c.For.DeviceID, Guesses: c.Guesses})
}
