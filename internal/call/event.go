package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
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

// CallDependent takes a call on which another one depends through all stages. asked, unless nil,
// gets the id of an approval that it waits for. Errors are those of Call.
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
