package call

import (
	"time"

	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/evidence/attest"
)

// Entry is what becomes durable in one transaction.
type Entry struct {
	Drafts []event.Draft
	// Claim reserves an idempotency key; a key that is taken fails the entry
	// with IDEMPOTENCY_MISMATCH.
	Claim *Claim
	// Blobs are stored by their SHA-256.
	Blobs [][]byte
	// Attestation is indexed by its id and its proposal's.
	Attestation *StoredAttestation
	// Member makes the call one of its session's.
	Member *session.Member
}

// ClaimLife is how long an idempotency key is remembered.
const ClaimLife = 24 * time.Hour

// Claim ties an idempotency key of a principal to one call.
type Claim struct {
	Principal access.Principal
	Key       string
	// Digest is of what was submitted.
	Digest     string
	ProposalID string
	At         time.Time
	// Replaces is the proposal that held the key before and never started; ""
	// when the key is new.
	Replaces string
}

// StoredAttestation is an envelope with what it is found by.
type StoredAttestation struct {
	Envelope   attest.Envelope
	ProposalID string
	CallDigest string
}

// OpenCall is a call that was decided and has no end.
type OpenCall struct {
	ProposalID string
	Session    string
	Run        string
	Actor      string
}
