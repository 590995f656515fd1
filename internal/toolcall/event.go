package toolcall

import (
	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/decision"
	"palyra/internal/tool"
)

// Event is one thing that happened to a call; exactly one of the pointers is
// set. Asked and Resolved come once more after the decision, and Ruling with
// them, when what the call changed needs an answer of its own.
type Event struct {
	Proposed *Proposed
	Asked    *approval.Record
	Resolved *approval.Answer
	Decision *decision.Record
	Output   *Chunk
	// Ruling is durable: whether changes to a workspace may be applied.
	Ruling      *tool.CommitRuling
	Result      *tool.Report
	Attestation *Attestation
	// Restricted reports of a decision and an attestation whether their digests are made of
	// files that policy does not let the caller read, or that are not known any more: they
	// confirm a guess of the content. It asks policy, so that only who shows the digests
	// calls it, at once.
	Restricted func() bool
	// Follows is true when another event comes at once, without a wait.
	Follows bool
}

// Proposed says that the proposal was checked.
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
	// Seq is the journal's sequence number of the attested event.
	Seq int64
}

// Outcome is how a call ended. Report and Attestation are zero when the
// decision was a deny.
type Outcome struct {
	Decision    decision.Record
	Report      tool.Report
	Attestation Attestation
}
