package decision

import (
	"sync/atomic"
	"time"

	"palyra/internal/core/reason"
)

// ErrNoPermit is returned for a nil, zero, spent or expired permit.
var ErrNoPermit = reason.Errorf(reason.PermitRefused, "no valid permit")

// Permit is the single-use token with which dispatch may run one call. Only Mint creates a
// valid one: a nil or zero Permit is rejected.
//
// A permit MUST be redeemed immediately before the call starts, for the plan as it is then. It MUST
// NOT be valid twice, also after a failed attempt, and MUST NOT be stored or sent.
type Permit struct {
	// spent is shared by copies of a permit; it is nil unless Mint filled it.
	spent          *atomic.Bool
	proposalID     string
	callDigest     string
	factsDigest    string
	snapshotDigest string
	expires        time.Time
}

// Presented identifies the call that dispatch is about to run.
type Presented struct {
	ProposalID string
	CallDigest string
	// FactsDigest is the digest of the current facts (policy.BoundDigest).
	FactsDigest    string
	SnapshotDigest string
	Now            time.Time
}

// Redeem spends the permit, independent of the result: a permit that is presented for the wrong
// call is spent too. It returns ErrNoPermit, or an error with reason APPROVAL_BINDING_MISMATCH
// that names the difference.
func (p *Permit) Redeem(now Presented) error {
	if p == nil || p.spent == nil || p.spent.Swap(true) {
		return ErrNoPermit
	}
	if now.Now.IsZero() || now.Now.After(p.expires) {
		return reason.Errorf(reason.PermitRefused, "the permit expired at %s", p.expires.UTC().Format(time.RFC3339))
	}
	switch {
	case p.proposalID != now.ProposalID:
		return mismatch("proposal", p.proposalID, now.ProposalID)
	case p.callDigest != now.CallDigest:
		return mismatch("call_digest", p.callDigest, now.CallDigest)
	case p.factsDigest != now.FactsDigest:
		return mismatch("facts_digest", p.factsDigest, now.FactsDigest)
	case p.snapshotDigest != now.SnapshotDigest:
		return mismatch("snapshot_digest", p.snapshotDigest, now.SnapshotDigest)
	}
	return nil
}

func mismatch(field, was, is string) error {
	return reason.Errorf(reason.BindingMismatch, "the permit is for %s %s and the call has %s", field, was, is).
		WithField("field", field)
}
