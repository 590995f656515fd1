package passkey

import (
	"time"

	"palyra/internal/core/access"
)

// Ceremony is what a browser is given to begin with.
type Ceremony struct {
	// Options are those of navigator.credentials.create or get, as JSON.
	Options string
	// Nonce is good for one use until Until.
	Nonce []byte
	Until time.Time
}

// Word is somebody's word for a change of a passkey.
type Word struct {
	By access.Principal
	// Host is true for the word of the gateway's host, which takes its uid.
	Host bool
	// Proof is by a passkey of By; nil for none.
	Proof *Assertion
}

// VotePurpose and ChangePurpose are what a number is given for, so that it is good for
// nothing else.
func VotePurpose(approval string) string { return "vote " + approval }

// ChangePurpose is that of a change of a passkey.
func ChangePurpose(what string, id []byte) string { return what + " " + Text(id) }
