package passkey

import "palyra/internal/core/access"

// EnrolledPayload is the payload of event.PasskeyEnrolled: everything needed to check later
// signatures of the passkey.
type EnrolledPayload struct {
	// Credential has the form of Text.
	Credential string           `json:"credential"`
	Member     access.Principal `json:"member"`
	Name       string           `json:"name"`
	PublicKey  []byte           `json:"public_key"`
	RPID       string           `json:"rp_id"`
	Origin     string           `json:"origin"`
	// Gateway is the gateway's name in statements.
	Gateway     string `json:"gateway"`
	AAGUID      string `json:"aaguid"`
	Attestation string `json:"attestation"`
	BackedUp    bool   `json:"backed_up"`
	SignCount   uint32 `json:"sign_count"`
	// Waits is true if the passkey proves nothing until it is confirmed.
	Waits bool `json:"waits"`
}

// ChangedPayload is the payload of event.PasskeyConfirmed and event.PasskeyRemoved.
type ChangedPayload struct {
	Credential string           `json:"credential"`
	Member     access.Principal `json:"member"`
	// By is the member that confirmed or removed it; Host is true for the gateway's host.
	By   access.Principal `json:"by"`
	Host bool             `json:"host"`
	// Proof is a proof by a passkey of By, if By has a passkey that counts.
	Proof *Assertion `json:"proof,omitempty"`
}

// CounterPayload is the payload of event.PasskeyCounterBack.
type CounterPayload struct {
	Credential string           `json:"credential"`
	Member     access.Principal `json:"member"`
	SignCount  uint32           `json:"sign_count"`
	Was        uint32           `json:"was"`
}
