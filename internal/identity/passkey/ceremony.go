package passkey

import (
	"time"

	"palyra/internal/core/access"
)

// Ceremony is the input with which a browser starts a ceremony.
type Ceremony struct {
	// Options are the options of navigator.credentials.create or get, as JSON.
	Options string
	// Nonce is valid for one use until Until.
	Nonce []byte
	Until time.Time
}

// Word is a member's authorization of a change of a passkey.
type Word struct {
	By access.Principal
	// Host is true for an authorization on the gateway's host, which requires palyrad's uid.
	Host bool
	// Proof is a proof by a passkey of By; nil for none.
	Proof *Assertion
}

// VotePurpose returns the purpose of a nonce for a vote. A nonce is valid only for its purpose.
func VotePurpose(approval string) string { return "vote " + approval }

// ChangePurpose returns the purpose of a nonce for a change of a passkey.
func ChangePurpose(what string, id []byte) string { return what + " " + Text(id) }
