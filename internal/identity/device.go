// Package identity knows the gateway's members and devices: who holds which
// certificate, who may get one, and which caller a certificate stands for.
// Its subpackage ca issues the certificates, keyfile keeps private files.
//
// Every change is one transaction with its journal event. A private key never
// travels: the device that uses it makes it and sends a certificate request.
package identity

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
)

// Local returns the principal of the local operator, made on first start.
func Local() access.Principal { return access.User("local") }

// Device is something that holds a key: a person's machine or an agent's.
type Device struct {
	// ID is a ULID, the last part of its certificates' URI name.
	ID        string           `json:"id"`
	Principal access.Principal `json:"principal"`
	Name      string           `json:"name"`
	// Local is true for the device that palyrad keeps on its own host.
	Local bool `json:"local"`
	// Serial (hex), KeySHA256 ("sha256:" and hex) and NotAfter are of the
	// newest certificate.
	Serial    string    `json:"serial"`
	KeySHA256 string    `json:"key_sha256"`
	CreatedAt time.Time `json:"created_at"`
	NotAfter  time.Time `json:"not_after"`
	// Keys are those that it may act with, the newest last: more than one while a
	// renewal goes on.
	Keys []Key `json:"keys"`
	// OldKeyAt is when the use of a replaced key was last journaled; zero for never.
	OldKeyAt time.Time `json:"old_key_at,omitzero"`
	// LoginUntil is when the session ends that a person began by logging in at the
	// identity provider; zero for a device that did not come about so. Its
	// certificate ends no later, and is not renewed.
	LoginUntil time.Time `json:"login_until,omitzero"`
	// Presence is the key by which it proves that a person is there.
	Presence PresenceKey `json:"presence,omitzero"`
	// RevokedAt is zero unless the device was revoked.
	RevokedAt    time.Time        `json:"revoked_at,omitzero"`
	RevokedBy    access.Principal `json:"revoked_by,omitzero"`
	RevokeReason string           `json:"revoke_reason,omitempty"`
	// Version counts changes, for compare-and-swap.
	Version int64 `json:"version"`
}

// Revoked reports whether the device was revoked.
func (d Device) Revoked() bool { return !d.RevokedAt.IsZero() }

// Session reports whether the device is the session of a person who logged in.
func (d Device) Session() bool { return !d.LoginUntil.IsZero() }

// Binding says which member a person of an identity provider is. It is made once
// and stays: another person never gets the member, whatever their name.
type Binding struct {
	// Issuer and Subject are those of OpenID Connect Core 1.0, section 2: together
	// they name one person, and are never used for another.
	Issuer, Subject string
	Member          access.Principal
	MadeAt          time.Time
}

// Store keeps members and devices.
type Store interface {
	access.MemberStore
	// Devices returns all devices, revoked ones included, ordered by ID.
	Devices(ctx context.Context) ([]Device, error)
	// Bindings returns who logs in as which member, in no order.
	Bindings(ctx context.Context) ([]Binding, error)
	// Provenance returns what was done to the members, the oldest act first.
	Provenance(ctx context.Context) (provenance.History, error)
	// Apply makes the change durable as a whole or not at all. It fails with
	// reason.AlreadyExists when something new exists, with reason.NotFound
	// when a changed member or device does not, and with ErrConflict when a
	// changed device does not have the version before the one given, or a
	// changed member was removed.
	Apply(ctx context.Context, c Change) error
}

// Change is one transaction: rows, and the events that record the change.
type Change struct {
	NewMembers []access.Member
	// Members replace the members with the same principals.
	Members    []access.Member
	NewDevices []Device
	// Devices replace those with the same ID and the version before.
	Devices []Device
	// NewBindings are of persons and members that have none.
	NewBindings []Binding
	// Forgotten are devices of sessions that are dropped, by ID.
	Forgotten []string
	// Acts are added to the history of the members.
	Acts   provenance.History
	Events []event.Draft
	// consent is true for an owner's word about an agent.
	consent bool
}
