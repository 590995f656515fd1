package call

import (
	"context"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// Event is one step of a call; exactly one of the pointers is set. Asked and Resolved occur a
// second time after the decision, together with Ruling, if the changes of the call need their
// own answer.
type Event struct {
	Proposed *Proposed
	Asked    *approval.Record
	Resolved *approval.Answer
	Decision *decision.Record
	Output   *Chunk
	// Ruling is the durable ruling whether changes to a workspace may be applied.
	Ruling      *tool.CommitRuling
	Result      *tool.Report
	Attestation *Attestation
	// Restricted reports whether the digests of a decision and its attestation depend on files
	// that the caller may not read, or that are unknown by now. Such digests would confirm a guess
	// of the content. It evaluates policy: call it only to display digests, and immediately.
	Restricted func() bool
	// Follows is true if another event comes immediately, without a wait.
	Follows bool
}

// Proposed reports that the proposal was checked.
type Proposed struct {
	ProposalID  string
	CallID      string
	Session     string
	Run         string
	Tool        string
	InputDigest string
	// Replayed marks the events of an earlier call with the same key.
	Replayed bool
}

// Chunk is provisional output of a running tool.
type Chunk struct {
	Stream string
	Data   []byte
}

// Attestation is a durable attestation.
type Attestation struct {
	Envelope attest.Envelope
	// Seq is the journal sequence number of the attested event.
	Seq int64
}

// Outcome is the end of a call. Report and Attestation are zero if the decision was a denial.
type Outcome struct {
	Decision    decision.Record
	Report      tool.Report
	Attestation Attestation
}

// CallDependent runs a call that another call depends on through all stages. asked, unless nil,
// receives the id of the approval that it waits for. It returns the errors of Call.
func (p *Pipeline) CallDependent(ctx context.Context, c tool.DependentCall, asked func(approval string)) (tool.DependentResult, error) {
	out, err := p.Call(ctx, Submission{Caller: c.Caller, Tool: c.Tool, Input: c.Input, Channel: c.Channel, Session: c.Session}, func(e Event) {
		if e.Asked != nil && asked != nil {
			asked(e.Asked.ID)
		}
	})
	result := tool.DependentResult{Report: out.Report}
	if d := out.Decision; err == nil && !d.Allowed {
		result.Denied = reason.Errorf(d.Reason, "%s", d.Message).WithRemedy("%s", d.Remedy)
	}
	return result, err
}

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
