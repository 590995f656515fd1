package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// MaxBlob is the largest blob that a ledger stores, in bytes: 16 MiB.
const MaxBlob = 16 << 20

// attest signs the outcome and makes it durable; only then is the result sent. ctx must not end
// when the client disconnects. A result that is too large to be stored is attested by its
// digest. A call that cannot be attested ends as ambiguous: immediately if that event can be
// journaled, otherwise at the next start of the daemon.
func (c *call) attest(ctx context.Context, x *executed) (*Outcome, error) {
	o := &Outcome{Decision: x.record, Report: x.report}
	before := c.drafts.Entry
	before.Drafts, before.Blobs = slices.Clip(before.Drafts), slices.Clip(before.Blobs)
	kept := len(o.Report.Result) <= MaxBlob
	err := c.recordOutcome(ctx, x, o, kept)
	if reason.Of(err) == reason.InputTooLarge && kept && len(o.Report.Result) > 0 {
		c.drafts.Entry = before
		err = c.recordOutcome(ctx, x, o, false)
	}
	// Only the next start can establish whether a failed write reached the disk. It closes the
	// call if the write is missing.
	if err == nil || reason.Of(err) == reason.JournalUnavailable {
		return o, err
	}
	c.drafts.Entry = before
	if lost := c.endAmbiguous(ctx); lost != nil {
		err = errors.Join(err, lost)
	}
	return o, err
}

// endAmbiguous ends a call that ran and cannot be attested.
func (c *call) endAmbiguous(ctx context.Context) error {
	err := c.drafts.draft(event.Ambiguous, record.Ambiguous{
		ProposalID: c.ids.ID, Reason: reason.AttestationFailed, Message: reason.Lookup(reason.AttestationFailed).Sentence,
	})
	if err != nil {
		return err
	}
	return c.drafts.flush(ctx)
}

// recordOutcome attests a call. Without keep, the result is not stored: the attestation has its
// digest and states that it was not kept.
func (c *call) recordOutcome(ctx context.Context, x *executed, o *Outcome, keep bool) error {
	kept := evidence(&o.Report)
	err := c.sign(ctx, c.execution(x, kept, keep), &o.Attestation.Envelope)
	if err != nil {
		return err
	}
	if err := c.draftOutcome(x, o.Attestation.Envelope, kept, keep); err != nil {
		return err
	}
	if o.Attestation.Seq, err = c.drafts.record(ctx); err != nil {
		return err
	}
	restricted := func() bool { return x.restricted(ctx) }
	if x.atOnce {
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
func (c *call) draftOutcome(x *executed, envelope attest.Envelope, kept *tool.Report, keep bool) error {
	payload := record.Attested{
		AttestationID: envelope.ID, ProposalID: c.ids.ID, DecisionID: x.decided.record.ID,
		Tool: x.proposal.Tool.Name, Report: *kept, Envelope: envelope.JSON,
	}
	payload.ResultNotKept = !keep
	if len(x.report.Result) > 0 && keep {
		payload.ResultBlob = canonical.Digest(x.report.Result)
		c.drafts.Blobs = append(c.drafts.Blobs, x.report.Result)
	}
	if err := c.draftViolated(&x.report); err != nil {
		return err
	}
	if err := c.draftAstray(&x.report, x.argumentsDigest); err != nil {
		return err
	}
	if err := c.drafts.draft(event.Attested, payload); err != nil {
		return err
	}
	c.drafts.Attestation = &StoredAttestation{Envelope: envelope, ProposalID: c.ids.ID, CallDigest: x.digest}
	return nil
}

// draftViolated drafts the accesses that the sandbox denied, if any.
func (c *call) draftViolated(r *tool.Report) error {
	if len(r.Violations) == 0 {
		return nil
	}
	return c.drafts.draftRedacted(event.Violated, record.Violated{
		ProposalID: c.ids.ID, Violations: r.Violations, Missed: r.ViolationsMissed,
	})
}

// execution builds the attested statement. report is the stored form; keep is true if the
// result is stored.
func (c *call) execution(x *executed, report *tool.Report, keep bool) *attest.Execution {
	decision := &x.decided.record
	determining := make([]string, len(decision.Determining))
	for i, d := range decision.Determining {
		determining[i] = d.ID
	}
	var approvedAt time.Time
	for _, v := range x.answer.Votes() {
		if v.At.After(approvedAt) {
			approvedAt = v.At
		}
	}
	journal := x.proposed.journal
	return &attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: x.proposal.ID, DecisionID: decision.ID,
		ApprovalID: decision.ApprovalID, GrantID: decision.GrantID,
		Session: x.proposal.Session, Run: x.proposal.Run,
		Principal: c.sub.Caller.Principal.String(), OnBehalfOf: c.sub.Caller.OnBehalfOf.String(),
		Tool: x.proposal.Tool.Name, ToolDefinitionDigest: x.plan.Binding.ToolDefinitionDigest,
		CallDigest: x.digest, ArgumentsDigest: x.argumentsDigest,
		PolicyVersion: decision.PolicyVersion, SnapshotDigest: decision.SnapshotDigest, Determining: determining,
		Operands: x.plan.Binding.Operands, Executable: x.plan.Binding.Executable, UnboundArguments: x.plan.UnboundArguments,
		Secrets:    x.plan.Facts.Secrets,
		Journal:    &journal,
		ProposedAt: c.proposedAt, DecidedAt: decision.At, ApprovedAt: approvedAt, Report: *report, ResultNotKept: !keep,
	}
}

// CloseAmbiguous ends every call that was decided and has no attestation. The daemon stopped
// while such a call ran, so its effect is unknown. CloseAmbiguous is called on start, before
// any call is admitted, and never runs anything again. It returns the number of calls that it
// closed.
func CloseAmbiguous(ctx context.Context, ledger Ledger) (int, error) {
	open, err := ledger.OpenCalls(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing open calls: %w", err)
	}
	if len(open) == 0 {
		return 0, nil
	}
	entry := Entry{}
	for _, o := range open {
		story, err := storyOf(ctx, ledger, o.ProposalID)
		if err != nil {
			return 0, fmt.Errorf("reading open call %s: %w", o.ProposalID, err)
		}
		payload, err := canonical.Marshal(record.Ambiguous{
			ProposalID: o.ProposalID, Reason: reason.OutcomeUnknown, Message: unknown(story).Message,
		})
		if err != nil {
			return 0, err
		}
		entry.Drafts = append(entry.Drafts, event.Draft{
			Code: event.Ambiguous, Session: o.Session, Run: o.Run, Actor: "service:palyrad",
			Subject: o.ProposalID, Payload: payload,
		})
	}
	if _, err := ledger.Record(ctx, entry); err != nil {
		return 0, fmt.Errorf("closing open calls: %w", err)
	}
	return len(open), nil
}
