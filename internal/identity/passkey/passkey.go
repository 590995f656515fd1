// Package passkey verifies votes signed by a passkey: the assertions of WebAuthn Level 3 that a
// person makes in a browser. It needs only the journal, so that a holder of the journal can
// verify a vote again without the gateway. Package internal/identity/passkeys enrols passkeys.
package passkey

import (
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"palyra/internal/core/access"
)

// Passkey is a WebAuthn credential of a member, as stored by the gateway.
type Passkey struct {
	// ID is the id of the credential, 1 to 1023 bytes chosen by the authenticator.
	ID     []byte           `json:"id"`
	Member access.Principal `json:"member"`
	// Name is for people.
	Name string `json:"name"`
	// PublicKey is a SubjectPublicKeyInfo (DER): ECDSA on P-256, Ed25519 or RSA.
	PublicKey []byte `json:"public_key"`
	// RPID is the relying party of the passkey: the host of the console's origin. It signs for no
	// other party.
	RPID string `json:"rp_id"`
	// AAGUID is the model of the authenticator according to the authenticator. Attestation is the
	// format of its attestation, or "none".
	AAGUID      string `json:"aaguid"`
	Attestation string `json:"attestation"`
	// BackedUp means that the passkey may be on several machines, copied by a cloud service of its
	// vendor.
	BackedUp bool `json:"backed_up"`
	// SignCount is the highest received counter; always 0 for an authenticator without a counter.
	SignCount  uint32    `json:"sign_count"`
	EnrolledAt time.Time `json:"enrolled_at"`
	// Waits is true until the passkey is confirmed; it proves nothing before.
	Waits      bool      `json:"waits"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// CounterBackAt is the time of the last decreased counter; zero for never.
	CounterBackAt time.Time `json:"counter_back_at,omitzero"`
	RemovedAt     time.Time `json:"removed_at,omitzero"`
	// Version counts changes, for compare-and-swap, from 1.
	Version int64 `json:"version"`
}

// Removed reports whether the passkey was removed. A removed passkey never counts again.
func (p Passkey) Removed() bool { return !p.RemovedAt.IsZero() }

// Counts reports whether the passkey can prove presence.
func (p Passkey) Counts() bool { return !p.Waits && !p.Removed() }

// LostAt reports whether the passkey would count but no browser offers it, because the console
// now has the given name and the passkey was created for another. "" means no console.
func (p Passkey) LostAt(name string) bool { return p.Counts() && name != "" && p.RPID != name }

// Text returns the id of a credential as browsers and the gateway's API encode it: base64url
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

// PartyOf returns the relying party of a console, and false for an origin that does not support
// passkeys.
func PartyOf(origin string) (Party, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" || u.Scheme+"://"+u.Host != origin {
		return Party{}, false
	}
	return Party{ID: u.Hostname(), Origin: origin}, true
}

// takes reports whether an origin belongs to the party.
func (p Party) takes(origin string) bool {
	if p.Origin != "" {
		return origin == p.Origin
	}
	from, ok := PartyOf(origin)
	return ok && (from.ID == p.ID || strings.HasSuffix(from.ID, "."+p.ID))
}
