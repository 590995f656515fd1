// Package passkey verifies votes signed by a passkey: the assertions of WebAuthn Level 3 that a
// person gives in a browser. It needs only the journal, so that a holder of the journal can verify
// a vote again, without the gateway. Package internal/identity/passkeys enrols passkeys.
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
	// AAGUID is the model of the authenticator according to itself; Attestation is the format of
	// its attestation, or "none".
	AAGUID      string `json:"aaguid"`
	Attestation string `json:"attestation"`
	// BackedUp means that it may be on several machines, copied by its vendor's cloud.
	BackedUp bool `json:"backed_up"`
	// SignCount is the highest counter received; always 0 without a counter.
	SignCount  uint32    `json:"sign_count"`
	EnrolledAt time.Time `json:"enrolled_at"`
	// Waits is true until it is confirmed; it proves nothing before.
	Waits      bool      `json:"waits"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// CounterBackAt is the time of the last decreased counter; zero for never.
	CounterBackAt time.Time `json:"counter_back_at,omitzero"`
	RemovedAt     time.Time `json:"removed_at,omitzero"`
	// Version counts changes, for compare-and-swap, from 1.
	Version int64 `json:"version"`
}

// Removed reports whether it was removed. A removed one never counts again.
func (p Passkey) Removed() bool { return !p.RemovedAt.IsZero() }

// Counts reports whether it proves something.
func (p Passkey) Counts() bool { return !p.Waits && !p.Removed() }

// LostAt reports whether the passkey would count but no browser offers it, because the console has
// a different name now; "" means no console.
func (p Passkey) LostAt(name string) bool { return p.Counts() && name != "" && p.RPID != name }

// Text is the id of a credential as browsers and the gateway's API write it: base64url
// without padding.
func Text(id []byte) string { return base64.RawURLEncoding.EncodeToString(id) }

// Party is the relying party: the console at its canonical origin.
type Party struct {
	// ID is the host of the origin.
	ID string
	// Origin is the origin that browsers include in the signed data; "" accepts every origin of ID,
	// for a journal written before the port changed.
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
