// Package passkey is what a passkey says of a vote, and whether it did say it: the
// assertions of WebAuthn Level 3 that a person gives in a browser. It needs nothing but
// what is in the journal, so that whoever has that can check a vote again, without the
// gateway. How a passkey is enrolled is the business of internal/identity/passkeys.
package passkey

import (
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"palyra/internal/core/access"
)

// Passkey is a WebAuthn credential of a member, as the gateway keeps it.
type Passkey struct {
	// ID is the credential's, 1 to 1023 bytes that the authenticator chose.
	ID     []byte           `json:"id"`
	Member access.Principal `json:"member"`
	// Name is for people.
	Name string `json:"name"`
	// PublicKey is a SubjectPublicKeyInfo (DER): ECDSA on P-256, Ed25519 or RSA.
	PublicKey []byte `json:"public_key"`
	// RPID is the relying party that it was made for: the host of the console's origin.
	// It signs for no other.
	RPID string `json:"rp_id"`
	// AAGUID is the make of the authenticator, as it says itself; Attestation is the
	// format of the statement about it, "none" for none.
	AAGUID      string `json:"aaguid"`
	Attestation string `json:"attestation"`
	// BackedUp says that it may be on several machines, copied by its maker's cloud.
	BackedUp bool `json:"backed_up"`
	// SignCount is the highest that it has shown; always 0 for one that does not count.
	SignCount  uint32    `json:"sign_count"`
	EnrolledAt time.Time `json:"enrolled_at"`
	// Waits is true until it is confirmed; it proves nothing before.
	Waits      bool      `json:"waits"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// CounterBackAt is when it last showed a counter that went back; zero for never.
	CounterBackAt time.Time `json:"counter_back_at,omitzero"`
	RemovedAt     time.Time `json:"removed_at,omitzero"`
	// Version counts changes, for compare-and-swap, from 1.
	Version int64 `json:"version"`
}

// Removed reports whether it was removed. A removed one never counts again.
func (p Passkey) Removed() bool { return !p.RemovedAt.IsZero() }

// Counts reports whether it proves something.
func (p Passkey) Counts() bool { return !p.Waits && !p.Removed() }

// LostAt reports whether it would count, and no browser offers it, since the console has
// another name by now; "" is no console.
func (p Passkey) LostAt(name string) bool { return p.Counts() && name != "" && p.RPID != name }

// Text is the id of a credential as browsers and the gateway's API write it: base64url
// without padding.
func Text(id []byte) string { return base64.RawURLEncoding.EncodeToString(id) }

// Party is the relying party: the console at its canonical origin.
type Party struct {
	// ID is the host of the origin.
	ID string
	// Origin is what browsers write into what is signed; "" takes every origin of ID, for
	// who reads a journal of before the port changed.
	Origin string
}

// PartyOf is the relying party of a console; false for an origin that passkeys do not
// work on.
func PartyOf(origin string) (Party, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" || u.Scheme+"://"+u.Host != origin {
		return Party{}, false
	}
	return Party{ID: u.Hostname(), Origin: origin}, true
}

// takes reports whether an origin is the party's.
func (p Party) takes(origin string) bool {
	if p.Origin != "" {
		return origin == p.Origin
	}
	from, ok := PartyOf(origin)
	return ok && (from.ID == p.ID || strings.HasSuffix(from.ID, "."+p.ID))
}
