// Package identity manages the gateway's members and devices: the holder of each certificate,
// the principals that may get one, and the caller that a certificate represents. Its subpackage
// ca issues the certificates.
//
// Every change is one transaction with its journal event. A private key never leaves its device,
// which creates it and sends a certificate request.
//
// The name of a removed member is never reused, because the journal, votes, grants and policies
// name members. A new member would get the grants of the old one, and an auditor would confuse
// the two people.
package identity

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
)

// Local returns the principal of the local operator, created on the first start.
func Local() access.Principal { return access.User("local") }

// Device is a holder of a key: a person's machine or an agent's.
type Device struct {
	// ID is a ULID, the last part of its certificates' URI name.
	ID        string           `json:"id"`
	Principal access.Principal `json:"principal"`
	Name      string           `json:"name"`
	// Local is true for the device that palyrad keeps on its own host.
	Local bool `json:"local"`
	// Serial (hex), KeySHA256 ("sha256:" and hex) and NotAfter describe the newest certificate.
	Serial    string    `json:"serial"`
	KeySHA256 string    `json:"key_sha256"`
	CreatedAt time.Time `json:"created_at"`
	NotAfter  time.Time `json:"not_after"`
	// Keys are the valid keys, newest last: more than one during a renewal.
	Keys []Key `json:"keys"`
	// OldKeyAt is the time of the last journaled use of a replaced key; zero for never.
	OldKeyAt time.Time `json:"old_key_at,omitzero"`
	// LoginUntil is the end of the session started by a login at the identity provider; zero for
	// other devices. The session's certificate expires no later, and is not renewed.
	LoginUntil time.Time `json:"login_until,omitzero"`
	// Presence is the key with which the device proves that a person is present.
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

// Binding maps a person of an identity provider to a member. It is created once and is permanent:
// another person never gets the member, even with the same name.
type Binding struct {
	// Issuer and Subject are defined by OpenID Connect Core 1.0, section 2: together they identify
	// one person and are never reused.
	Issuer, Subject string
	Member          access.Principal
	MadeAt          time.Time
}

// Store stores members and devices.
type Store interface {
	access.MemberStore
	// Devices returns all devices, revoked ones included, ordered by ID.
	Devices(ctx context.Context) ([]Device, error)
	// Bindings returns the mapping of logins to members, in no particular order.
	Bindings(ctx context.Context) ([]Binding, error)
	// Provenance returns the acts on members, oldest first.
	Provenance(ctx context.Context) (provenance.History, error)
	// Apply makes the change durable completely, or not at all. It returns reason.AlreadyExists if
	// a new object already exists, and reason.NotFound if a changed member or device does not
	// exist. It returns ErrConflict if the stored version of a changed device is not the previous
	// one, or if a changed member was removed.
	Apply(ctx context.Context, c Change) error
}

// Change is one transaction: rows, and the events that record the change.
type Change struct {
	NewMembers []access.Member
	// Members replace the members with the same principals.
	Members    []access.Member
	NewDevices []Device
	// Devices replace the devices with the same ID and the previous version.
	Devices []Device
	// NewBindings are bindings of persons and members that have none yet.
	NewBindings []Binding
	// Forgotten lists the IDs of the devices of old sessions to delete.
	Forgotten []string
	// Acts are added to the history of the members.
	Acts   provenance.History
	Events []event.Draft
	// consent is true if an owner consents to an agent, or withdraws consent.
	consent bool
}
