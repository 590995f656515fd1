package identity

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// PresenceKey is the key with which a device proves that a person is present (package presence
// checks the proofs). The zero value means that the device has no such key.
type PresenceKey struct {
	// Public is a SubjectPublicKeyInfo (DER); nil for none.
	Public []byte `json:"public,omitempty"`
	// At is the time of its registration.
	At time.Time `json:"at,omitzero"`
	// Waits is true until an independent member has confirmed the key; until then it proves
	// nothing.
	Waits bool `json:"waits,omitempty"`
	// ResetAt is the time at which the gateway's host last removed a key.
	ResetAt time.Time `json:"reset_at,omitzero"`
}

// Proves reports whether the device has a presence key that counts.
func (k PresenceKey) Proves() bool { return len(k.Public) > 0 && !k.Waits }

// SHA256 returns "sha256:" and the digest of the key, "" for none.
func (k PresenceKey) SHA256() string {
	if len(k.Public) == 0 {
		return ""
	}
	return canonical.Digest(k.Public)
}

// Proving returns the people who can prove presence: each has a device whose presence key counts.
func Proving(devices []Device) (list []access.Principal) {
	for _, d := range devices {
		if d.Presence.Proves() && !d.Revoked() && !slices.Contains(list, d.Principal) {
			list = append(list, d.Principal)
		}
	}
	return list
}

// PresenceKeys registers, confirms and removes the presence keys of devices.
type PresenceKeys struct{ dir *Directory }

// RegisterPresence registers the presence key of a device, or replaces was, which must be the
// current key. The caller MUST have checked that the device presented its certificate and that
// both keys signed.
//
// The first key of a gateway counts immediately. Each later key waits for a confirmation: the
// holder of a device's key can create members and devices, and must not be able to prove
// presence by adding a presence key to one of them.
func (s *PresenceKeys) RegisterPresence(ctx context.Context, deviceID string, public, was []byte) (PresenceKey, error) {
	dev, err := s.changePresence(ctx, deviceID, func(dev *Device, d *drafts) error {
		switch m, ok := s.dir.registry.Active(dev.Principal); {
		case dev.Session():
			return reason.Errorf(reason.PermissionDenied, "a login session has no presence key: it ends too soon").
				WithRemedy("Use the credential of a device: `palyrad operator bundle NAME` on the gateway's host, or `palyra pair`.")
		case !ok || m.Principal.Kind != access.KindUser:
			return reason.Errorf(reason.PermissionDenied, "%s is not a person, and cannot be present", dev.Principal)
		case !bytes.Equal(dev.Presence.Public, was):
			return reason.Errorf(reason.AlreadyExists, "device %s has another presence key than the one that signed", dev.ID).
				WithRemedy("Sign with the key that it has; if that is lost, run `palyrad presence reset %s` on the gateway's host.", dev.ID)
		}
		waits := dev.Presence.Waits
		if len(was) == 0 {
			waits = presenceBegun(s.dir.Devices())
		}
		digest := dev.Presence.SHA256()
		dev.Presence = PresenceKey{Public: public, At: s.dir.instant(), Waits: waits, ResetAt: dev.Presence.ResetAt}
		d.add(event.PresenceKeyRegistered, dev.Principal, dev.ID, presenceKeyRegistered{
			DeviceID: dev.ID, Principal: dev.Principal, KeySHA256: dev.Presence.SHA256(), WasSHA256: digest, Waits: waits,
		})
		return nil
	})
	if err != nil {
		return PresenceKey{}, fmt.Errorf("registering a presence key: %w", err)
	}
	return dev.Presence, nil
}

// presenceBegun reports whether a device has a presence key that counts, or had one when the device
// was revoked or before the gateway's host removed the key.
func presenceBegun(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool { return d.Presence.Proves() || !d.Presence.ResetAt.IsZero() })
}

// ConfirmPresence makes a waiting presence key count. The actor must be permitted to change the
// device and have proved presence, or be the gateway's host.
func (s *PresenceKeys) ConfirmPresence(ctx context.Context, actor access.Principal, deviceID, sha256 string) (PresenceKey, error) {
	dev, err := s.changePresence(ctx, deviceID, func(dev *Device, d *drafts) error {
		if err := mayRevoke(s.dir.registry, actor, *dev); err != nil {
			return err
		}
		switch {
		case dev.Presence.SHA256() == "" || sha256 != "" && dev.Presence.SHA256() != sha256:
			return reason.Errorf(reason.NotFound, "device %s has no such presence key", dev.ID).
				WithRemedy("See `palyra devices show %s`.", dev.ID)
		case !dev.Presence.Waits:
			return reason.Errorf(reason.AlreadyExists, "the presence key of device %s was confirmed already", dev.ID)
		}
		dev.Presence.Waits = false
		d.add(event.PresenceKeyConfirmed, actor, dev.ID, presenceKeyEvent{DeviceID: dev.ID, Principal: dev.Principal, KeySHA256: dev.Presence.SHA256()})
		return nil
	})
	if err != nil {
		return PresenceKey{}, fmt.Errorf("confirming a presence key: %w", err)
	}
	return dev.Presence, nil
}

// ResetPresence removes the presence key of a device, and returns it. The caller MUST have
// checked that the request comes from the gateway's host.
func (s *PresenceKeys) ResetPresence(ctx context.Context, actor access.Principal, deviceID string) (was PresenceKey, err error) {
	_, err = s.changePresence(ctx, deviceID, func(dev *Device, d *drafts) error {
		if was = dev.Presence; len(was.Public) == 0 {
			return reason.Errorf(reason.NotFound, "device %s has no presence key", dev.ID).
				WithRemedy("The device has no presence key: `palyra key presence --passphrase` creates one there.")
		}
		dev.Presence = PresenceKey{ResetAt: s.dir.instant()}
		d.add(event.PresenceKeyReset, actor, dev.ID, presenceKeyEvent{DeviceID: dev.ID, Principal: dev.Principal, KeySHA256: was.SHA256()})
		return nil
	})
	if err != nil {
		return PresenceKey{}, fmt.Errorf("taking a presence key away: %w", err)
	}
	return was, nil
}

// changePresence changes the presence key of a device and records the event.
func (s *PresenceKeys) changePresence(ctx context.Context, deviceID string, change func(*Device, *drafts) error) (dev Device, err error) {
	err = s.dir.change(ctx, func() error {
		known := false
		if dev, known = s.dir.Device(deviceID); !known {
			return reason.Errorf(reason.NotFound, "device %s not found", deviceID).WithRemedy("See `palyra devices list`.")
		}
		if dev.Revoked() {
			return reason.Errorf(reason.InvalidInput, "device %s was revoked, and its presence key with it", deviceID)
		}
		var d drafts
		if err := change(&dev, &d); err != nil {
			return err
		}
		dev.Version++
		return s.dir.apply(ctx, dev.Principal, Change{Devices: []Device{dev}}, d)
	})
	return dev, err
}
