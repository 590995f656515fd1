package call

import (
	"time"

	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/evidence/attest"
)

// Entry is a unit of data that becomes durable in one transaction.
type Entry struct {
	Drafts []event.Draft
	// Claim reserves an idempotency key. If the key is taken, the entry fails with
	// IDEMPOTENCY_MISMATCH.
	Claim *Claim
	// Blobs are stored by their SHA-256.
	Blobs [][]byte
	// Attestation is indexed by its own id and by the id of its proposal.
	Attestation *StoredAttestation
	// Member adds the call to its session.
	Member *session.Member
}

// ClaimLife is how long an idempotency key is remembered.
const ClaimLife = 24 * time.Hour

// Claim binds an idempotency key of a principal to one call.
type Claim struct {
	Principal access.Principal
	Key       string
	// Digest is the digest of the submission.
	Digest     string
	ProposalID string
	At         time.Time
	// Replaces is the proposal that held the key before and never started, or "" if the key is
	// new.
	Replaces string
}

// StoredAttestation is an envelope with its index keys.
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
