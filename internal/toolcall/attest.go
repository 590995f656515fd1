package toolcall

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/attest"
	"palyra/internal/callrecord"
	"palyra/internal/canonical"
	"palyra/internal/decision"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// dispatch runs the decided call.
func (c *call) dispatch(ctx context.Context, permit *decision.Permit) tool.Report {
	tells := &teller{observe: c.observe}
	peer := c.sub.Peer
	peer.Session = c.sub.Session
	answer := c.answer
	decided := dispatch.Decided{
		Permit: permit, Proposal: c.proposal, Plan: c.plan,
		Ready:   func(ctx context.Context) error { return c.stands(ctx, answer) },
		Rejudge: c.rejudge,
		MayRead: c.mayRead, Peer: peer,
		Output: func(stream string, chunk []byte) {
			if !c.atOnce { // nothing is told before the decision
				tells.tell(Event{Output: &Chunk{Stream: stream, Data: chunk}})
			}
		},
	}
	if !c.atOnce { // and nothing more is decided
		decided.Commit = func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
			return c.commit(ctx, &r, tells.tell)
		}
	}
	report := c.Dispatcher.Run(ctx, decided)
	report.Edited = c.edited
	tells.end()
	c.exchanged = callrecord.TrafficOf(report.Egress)
	c.exchanged.Read = c.exchanged.Read || report.Claim != nil && report.Claim.State == tool.RanOther
	return report
}

// teller passes on what a running tool causes: one event at a time, and none
// after the call has ended, whatever the tool does.
type teller struct {
	observe func(Event)
	mu      sync.Mutex
	ended   bool
}

func (t *teller) tell(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.observe(e)
	}
}

func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// MaxBlob is the largest blob that a ledger keeps, in bytes: 16 MiB.
const MaxBlob = 16 << 20

// attest signs what happened and makes it durable; only then is the result sent.
// ctx must not end when the client leaves. A result that is too large to be stored
// is attested by its digest. A call that cannot be attested ends as ambiguous: now
// if that event can be journaled, else at the next start of the daemon.
func (c *call) attest(ctx context.Context, record decision.Record, report tool.Report) (Outcome, error) {
	before := c.pending
	before.Drafts, before.Blobs = slices.Clip(before.Drafts), slices.Clip(before.Blobs)
	kept := len(report.Result) <= MaxBlob
	outcome, err := c.recordOutcome(ctx, record, report, kept)
	if reason.Of(err) == reason.InputTooLarge && kept && len(report.Result) > 0 {
		c.pending = before
		outcome, err = c.recordOutcome(ctx, record, report, false)
	}
	// Whether a write that failed reached the disk is known only after the next
	// start, which closes the call if it did not.
	if err == nil || reason.Of(err) == reason.JournalUnavailable {
		return outcome, err
	}
	c.pending = before
	if lost := c.endAmbiguous(ctx); lost != nil {
		err = errors.Join(err, lost)
	}
	return outcome, err
}

// endAmbiguous gives a call its end that ran and cannot be attested.
func (c *call) endAmbiguous(ctx context.Context) error {
	err := c.draft(event.Ambiguous, callrecord.Ambiguous{
		ProposalID: c.proposal.ID, Reason: reason.AttestationFailed, Message: reason.Lookup(reason.AttestationFailed).Sentence,
	})
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// recordOutcome attests a call. Without keep, the result is not stored: the
// attestation has its digest and says that it was not kept.
func (c *call) recordOutcome(ctx context.Context, record decision.Record, report tool.Report, keep bool) (Outcome, error) {
	// A tool's message may quote a secret of the input. The client has sent it;
	// the evidence goes without it.
	kept := report
	kept.Message = tool.RedactText(report.Message)
	if e := report.Edited; e != nil { // the journal has the arguments of both calls
		kept.Edited = &tool.Edited{ApprovalID: e.ApprovalID, By: e.By, Reason: e.Reason, Proposed: e.Proposed}
	}
	execution := c.execution(record, kept)
	execution.ResultNotKept = !keep
	envelope, err := c.Notary.Sign(ctx, execution)
	if err != nil {
		return Outcome{Decision: record}, reason.Errorf(reason.AttestationFailed, "signing the attestation: %w", err)
	}
	payload := callrecord.Attested{
		AttestationID: envelope.ID, ProposalID: c.proposal.ID, DecisionID: record.ID,
		Tool: c.proposal.Tool.Name, Report: kept, Envelope: envelope.JSON,
	}
	payload.ResultNotKept = !keep
	if len(report.Result) > 0 && keep {
		payload.ResultBlob = canonical.Digest(report.Result)
		c.pending.Blobs = append(c.pending.Blobs, report.Result)
	}
	if err := c.draftViolated(report); err != nil {
		return Outcome{Decision: record}, err
	}
	if err := c.draftAstray(report, c.argumentsDigest); err != nil {
		return Outcome{Decision: record}, err
	}
	if err := c.draft(event.Attested, payload); err != nil {
		return Outcome{Decision: record}, err
	}
	c.pending.Attestation = &StoredAttestation{Envelope: envelope, ProposalID: c.proposal.ID, CallDigest: c.digest}
	seq, err := c.record(ctx)
	if err != nil {
		return Outcome{Decision: record}, err
	}
	outcome := Outcome{Decision: record, Report: report, Attestation: Attestation{Envelope: envelope, Seq: seq}}
	if c.atOnce {
		c.observe(Event{Decision: &outcome.Decision, Follows: true})
	}
	c.observe(Event{Result: &outcome.Report, Follows: true})
	c.observe(Event{Attestation: &outcome.Attestation})
	return outcome, nil
}

// draftViolated drafts what the sandbox denied, if it denied anything.
func (c *call) draftViolated(r tool.Report) error {
	if len(r.Violations) == 0 {
		return nil
	}
	return c.draftRedacted(event.Violated, callrecord.Violated{
		ProposalID: c.proposal.ID, Violations: r.Violations, Missed: r.ViolationsMissed,
	})
}

func (c *call) execution(record decision.Record, report tool.Report) attest.Execution {
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
	return attest.Execution{
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
		ProposedAt: c.proposedAt, DecidedAt: record.At, ApprovedAt: approvedAt, Report: report,
	}
}
