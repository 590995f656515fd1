package passkey

import (
	"time"

	"palyra/internal/core/access"
)

// Ceremony is the input of a browser at its start.
type Ceremony struct {
	// Options are the options of navigator.credentials.create or get, as JSON.
	Options string
	// Nonce is good for one use until Until.
	Nonce []byte
	Until time.Time
}

// Word is a member's authorisation of a change of a passkey.
type Word struct {
	By access.Principal
	// Host is true for the word of the gateway's host, which takes its uid.
	Host bool
	// Proof is by a passkey of By; nil for none.
	Proof *Assertion
}

// VotePurpose and ChangePurpose name the purpose of a nonce, so that it is valid for nothing else.
func VotePurpose(approval string) string { return "vote " + approval }

// ChangePurpose is the purpose of a change of a passkey.
func ChangePurpose(what string, id []byte) string { return what + " " + Text(id) }
