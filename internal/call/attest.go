package call

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/decision"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// dispatch runs the decided call.
func (c *call) dispatch(ctx context.Context, permit *decision.Permit, report *tool.Report) {
	reporter := &reporter{observe: c.observe}
	*report = c.Dispatcher.Run(ctx, c.decidedCall(permit, reporter))
	report.Edited = c.edited
	reporter.end()
	c.exchanged = record.TrafficOf(report.Egress)
	c.exchanged.Read = c.exchanged.Read || report.Claim != nil && report.Claim.State == tool.RanOther
}

// decidedCall returns the call in the form that the dispatcher takes.
func (c *call) decidedCall(permit *decision.Permit, reporter *reporter) *dispatch.Decided {
	answer := c.answer
	decided := &dispatch.Decided{
		Permit: permit, Proposal: c.proposal, Plan: c.plan,
		Ready:   func(ctx context.Context) error { return c.checkValid(ctx, answer) },
		Rejudge: c.rejudge,
		MayRead: c.mayRead, MayDisclose: c.mayDisclose, Peer: c.sub.Peer,
		Output: func(stream string, chunk []byte) {
			if !c.atOnce { // no event precedes the decision
				reporter.tell(Event{Output: &Chunk{Stream: stream, Data: chunk}})
			}
		},
	}
	decided.Peer.Session = c.sub.Session
	if !c.atOnce { // no further decision is possible
		decided.Commit = func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
			return c.commit(ctx, &r, reporter.tell)
		}
	}
	return decided
}

// reporter forwards the events of a running tool to the observer, one at a time. It drops events
// that arrive after the call has ended.
type reporter struct {
	observe func(Event)
	mu      sync.Mutex
	ended   bool
}

func (t *reporter) tell(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.observe(e)
	}
}

func (t *reporter) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// MaxBlob is the largest blob that a ledger stores, in bytes: 16 MiB.
const MaxBlob = 16 << 20

// attest signs the outcome and makes it durable; only then is the result sent. ctx must not end
// when the client disconnects. A result that is too large to be stored is attested by its
// digest. A call that cannot be attested ends as ambiguous: immediately if that event can be
// journaled, otherwise at the next start of the daemon.
func (c *call) attest(ctx context.Context, o *Outcome) error {
	before := c.pending
	before.Drafts, before.Blobs = slices.Clip(before.Drafts), slices.Clip(before.Blobs)
	kept := len(o.Report.Result) <= MaxBlob
	err := c.recordOutcome(ctx, o, kept)
	if reason.Of(err) == reason.InputTooLarge && kept && len(o.Report.Result) > 0 {
		c.pending = before
		err = c.recordOutcome(ctx, o, false)
	}
	// Only the next start can establish whether a failed write reached the disk. It closes the
	// call if the write is missing.
	if err == nil || reason.Of(err) == reason.JournalUnavailable {
		return err
	}
	c.pending = before
	if lost := c.endAmbiguous(ctx); lost != nil {
		err = errors.Join(err, lost)
	}
	return err
}

// endAmbiguous ends a call that ran and cannot be attested.
func (c *call) endAmbiguous(ctx context.Context) error {
	err := c.draft(event.Ambiguous, record.Ambiguous{
		ProposalID: c.proposal.ID, Reason: reason.AttestationFailed, Message: reason.Lookup(reason.AttestationFailed).Sentence,
	})
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// recordOutcome attests a call. Without keep, the result is not stored: the attestation has its
// digest and states that it was not kept.
func (c *call) recordOutcome(ctx context.Context, o *Outcome, keep bool) error {
	kept := evidence(&o.Report)
	err := c.sign(ctx, c.execution(&o.Decision, kept, keep), &o.Attestation.Envelope)
	if err != nil {
		return err
	}
	if err := c.draftOutcome(o, kept, keep); err != nil {
		return err
	}
	if o.Attestation.Seq, err = c.record(ctx); err != nil {
		return err
	}
	restricted := func() bool { return c.restricted(ctx) }
	if c.atOnce {
		c.observe(Event{Decision: &o.Decision, Restricted: restricted, Follows: true})
	}
	c.observe(Event{Result: &o.Report, Follows: true})
	c.observe(Event{Attestation: &o.Attestation, Restricted: restricted})
	return nil
}

// sign signs an attestation into an envelope.
func (c *call) sign(ctx context.Context, e *attest.Execution, envelope *attest.Envelope) error {
	signed, err := c.Notary.Sign(ctx, *e)
	if err != nil {
		return reason.Errorf(reason.AttestationFailed, "signing the attestation: %w", err)
	}
	*envelope = signed
	return nil
}

// evidence returns the part of a report that is stored. A tool's message may quote a secret of
// the input, which is redacted from the evidence. The client sent the input, so it gets the
// full message.
func evidence(report *tool.Report) *tool.Report {
	kept := new(tool.Report)
	*kept = *report
	kept.Message = tool.RedactText(report.Message)
	if e := report.Edited; e != nil { // the journal has the arguments of both versions
		kept.Edited = &tool.Edited{ApprovalID: e.ApprovalID, By: e.By, Reason: e.Reason, Proposed: e.Proposed}
	}
	return kept
}

// draftOutcome drafts the end of the call; kept is the report in its stored form.
func (c *call) draftOutcome(o *Outcome, kept *tool.Report, keep bool) error {
	envelope := o.Attestation.Envelope
	payload := record.Attested{
		AttestationID: envelope.ID, ProposalID: c.proposal.ID, DecisionID: o.Decision.ID,
		Tool: c.proposal.Tool.Name, Report: *kept, Envelope: envelope.JSON,
	}
	payload.ResultNotKept = !keep
	if len(o.Report.Result) > 0 && keep {
		payload.ResultBlob = canonical.Digest(o.Report.Result)
		c.pending.Blobs = append(c.pending.Blobs, o.Report.Result)
	}
	if err := c.draftViolated(&o.Report); err != nil {
		return err
	}
	if err := c.draftAstray(&o.Report, c.argumentsDigest); err != nil {
		return err
	}
	if err := c.draft(event.Attested, payload); err != nil {
		return err
	}
	c.pending.Attestation = &StoredAttestation{Envelope: envelope, ProposalID: c.proposal.ID, CallDigest: c.digest}
	return nil
}

// draftViolated drafts the accesses that the sandbox denied, if any.
func (c *call) draftViolated(r *tool.Report) error {
	if len(r.Violations) == 0 {
		return nil
	}
	return c.draftRedacted(event.Violated, record.Violated{
		ProposalID: c.proposal.ID, Violations: r.Violations, Missed: r.ViolationsMissed,
	})
}

// execution builds the attested statement. report is the stored form; keep is true if the
// result is stored.
func (c *call) execution(record *decision.Record, report *tool.Report, keep bool) *attest.Execution {
	determining := make([]string, len(record.Determining))
	for i, d := range record.Determining {
		determining[i] = d.ID
	}
	var approvedAt time.Time
	for _, v := range c.answer.Votes() {
		if v.At.After(approvedAt) {
			approvedAt = v.At
		}
	}
	journal := c.journal
	return &attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: c.proposal.ID, DecisionID: record.ID,
		ApprovalID: record.ApprovalID, GrantID: record.GrantID,
		Session: c.proposal.Session, Run: c.proposal.Run,
		Principal: c.sub.Caller.Principal.String(), OnBehalfOf: c.sub.Caller.OnBehalfOf.String(),
		Tool: c.proposal.Tool.Name, ToolDefinitionDigest: c.plan.Binding.ToolDefinitionDigest,
		CallDigest: c.digest, ArgumentsDigest: c.argumentsDigest,
		PolicyVersion: record.PolicyVersion, SnapshotDigest: record.SnapshotDigest, Determining: determining,
		Operands: c.plan.Binding.Operands, Executable: c.plan.Binding.Executable, UnboundArguments: c.plan.UnboundArguments,
		Secrets:    c.plan.Facts.Secrets,
		Journal:    &journal,
		ProposedAt: c.proposedAt, DecidedAt: record.At, ApprovedAt: approvedAt, Report: *report, ResultNotKept: !keep,
	}
}
