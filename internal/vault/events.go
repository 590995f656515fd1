package vault

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
)

// draft returns an event of a secret.
func draft(ctx context.Context, code event.Code, actor access.Principal, ref Ref, payload any) (event.Draft, error) {
	e, err := event.DraftOf(code, actor.String(), ref.String(), payload)
	if err != nil {
		return event.Draft{}, err
	}
	return e.By(access.DeviceOf(ctx))
}

// The payloads of this package's events; docs/reference/events.md describes them. They contain
// no value, and no data that reveals one.
type (
	putEvent struct {
		Scope   string `json:"scope"`
		Key     string `json:"key"`
		Version int    `json:"version"`
		// NewValue is false if only the metadata changed.
		NewValue  bool      `json:"new_value"`
		Hosts     []string  `json:"hosts,omitempty"`
		Header    string    `json:"header,omitempty"`
		Env       string    `json:"env,omitempty"`
		File      string    `json:"file,omitempty"`
		ExpiresAt time.Time `json:"expires_at,omitzero"`
		Holder    string    `json:"holder,omitempty"`
		// Seal authenticates the metadata under a key that only the vault has: an older state of
		// the secret is then refused.
		Seal []byte `json:"seal"`
	}
	readEvent struct {
		Scope   string `json:"scope"`
		Key     string `json:"key"`
		Version int    `json:"version"`
	}
	secretEnded struct {
		Scope   string `json:"scope"`
		Key     string `json:"key"`
		Version int    `json:"version"`
	}
	removedEvent struct {
		Scope string `json:"scope"`
		Key   string `json:"key"`
	}
	leasedEvent struct {
		Lease   string    `json:"lease"`
		Scope   string    `json:"scope"`
		Key     string    `json:"key"`
		Version int       `json:"version"`
		CallID  string    `json:"call_id,omitempty"`
		RunID   string    `json:"run_id,omitempty"`
		Until   time.Time `json:"until"`
	}
	usedEvent struct {
		Lease   string `json:"lease"`
		Scope   string `json:"scope"`
		Key     string `json:"key"`
		Version int    `json:"version"`
		For     string `json:"for"`
		CallID  string `json:"call_id,omitempty"`
		RunID   string `json:"run_id,omitempty"`
	}
	endedEvent struct {
		Lease  string `json:"lease"`
		Scope  string `json:"scope"`
		Key    string `json:"key"`
		Uses   int    `json:"uses"`
		Why    string `json:"why"`
		CallID string `json:"call_id,omitempty"`
		RunID  string `json:"run_id,omitempty"`
	}
)
