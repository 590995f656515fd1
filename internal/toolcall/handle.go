package toolcall

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/canonical"
	"palyra/internal/decision"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// inlineArguments is the largest input that is written into the journal; a
// larger one is a blob that the journal names by digest.
const inlineArguments = 16 << 10

// call is one submission on its way through the stages.
type call struct {
	*Pipeline
	sub     Submission
	claim   *Claim
	observe func(Event)

	proposal   tool.Proposal
	proposedAt time.Time
	plan       tool.Plan
	digest     string
	request    policy.Request
	budget     decision.Budget
	verdict    policy.Verdict
	answer     approval.Answer
	// pending is what the next durable write takes along.
	pending Entry
}

// handle is the pipeline: each line is one stage of architecture.md.
func (p *Pipeline) handle(ctx context.Context, s Submission, claim *Claim, observe func(Event)) (Outcome, error) {
	c := &call{Pipeline: p, sub: s, claim: claim, observe: observe}
	if err := c.propose(ctx); err != nil {
		return Outcome{}, c.refuse(ctx, err)
	}
	tally, err := p.runs.begin(ctx, c.proposal)
	if err != nil {
		return Outcome{}, c.refuse(ctx, err)
	}
	defer func() { tally.end(c.proposal.Tool) }()
	c.budget = decision.Budget{Limit: p.MaxCallsPerRun, Used: tally.facts.CallsInRun}
	if err := c.planCall(ctx, tally.facts); err != nil {
		return Outcome{}, c.refuse(ctx, err)
	}
	if err := c.settle(ctx); err != nil {
		return Outcome{}, c.refuse(ctx, err)
	}
	record, permit, err := c.decide(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if permit == nil {
		return Outcome{Decision: record}, nil
	}
	report := c.dispatch(ctx, permit)
	return c.attest(context.WithoutCancel(ctx), record, report)
}

// propose checks the input and gives the proposal its identity.
func (c *call) propose(ctx context.Context) error {
	c.proposedAt = time.Now().UTC()
	c.proposal = tool.Proposal{
		ID:      ulid.Make().String(),
		Caller:  c.sub.Caller,
		Session: SessionID(c.sub.Caller, c.sub.Session),
		Run:     c.sub.Run,
		Channel: c.sub.Channel,
		Tool:    tool.Descriptor{Name: c.sub.Tool},
	}
	if c.claim != nil {
		c.claim.ProposalID = c.proposal.ID
		c.pending.Claim = c.claim
	}
	if c.proposal.Run == "" {
		c.proposal.Run = c.proposal.ID
	}
	if err := ctx.Err(); err != nil {
		return reason.Errorf(reason.Cancelled, "the caller left before the call began: %w", err)
	}
	descriptor, input, err := c.Dispatcher.Check(c.sub.Tool, c.sub.Input)
	if err != nil {
		return err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	if err := c.addProposed(); err != nil {
		return err
	}
	c.observe(Event{Proposed: &Proposed{
		ProposalID: c.proposal.ID, Session: c.proposal.Session, Run: c.proposal.Run,
		Tool: descriptor.Name, InputDigest: canonical.Digest(input),
	}})
	if c.Dispatcher.Frozen() {
		return reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return nil
}

func (c *call) addProposed() error {
	digest, err := c.proposal.Tool.Digest()
	if err != nil {
		return err
	}
	arguments, redactions, err := tool.Redact(c.proposal.Input, c.proposal.Tool.SecretPaths)
	if err != nil {
		return err
	}
	payload := ProposedPayload{
		ProposalID:           c.proposal.ID,
		Principal:            c.sub.Caller.Principal.String(),
		OnBehalfOf:           c.sub.Caller.OnBehalfOf.String(),
		DeviceID:             c.sub.Caller.DeviceID,
		Surface:              c.sub.Caller.Surface,
		Channel:              c.proposal.Channel,
		Tool:                 c.proposal.Tool.Name,
		ToolDefinitionDigest: digest,
		ArgumentsDigest:      canonical.Digest(c.proposal.Input),
		Redactions:           redactions,
		IdempotencyKey:       c.sub.IdempotencyKey,
	}
	if len(arguments) > inlineArguments {
		payload.ArgumentsBlob = canonical.Digest(arguments)
		c.pending.Blobs = append(c.pending.Blobs, arguments)
	} else {
		payload.Arguments = arguments
	}
	return c.draft(event.Proposed, payload)
}

// planCall works out what the call would do, as facts for policy.
func (c *call) planCall(ctx context.Context, session tool.SessionFacts) error {
	plan, err := c.Dispatcher.Plan(ctx, c.proposal)
	if err != nil {
		return err
	}
	digest, err := plan.Binding.Digest()
	if err != nil {
		return err
	}
	c.plan, c.digest = plan, digest
	c.request = policy.Request{
		Caller:       c.sub.Caller,
		Tool:         c.proposal.Tool.Name,
		Capabilities: c.proposal.Tool.Capabilities,
		Args:         c.proposal.Input,
		Session:      c.proposal.Session,
		Run:          c.proposal.Run,
		Channel:      c.proposal.Channel,
		Facts:        plan.Facts,
		SessionFacts: session,
		Time:         c.proposedAt,
	}
	return nil
}

// settle gets the verdict and, where it asks, the answer. A policy that
// changed while humans were asked is asked again about their votes.
func (c *call) settle(ctx context.Context) error {
	if err := c.evaluate(ctx); err != nil {
		return err
	}
	if err := c.resolve(ctx); err != nil {
		return err
	}
	if !c.answer.Allowed() || c.Evaluator.Current().SnapshotDigest() == c.verdict.SnapshotDigest() {
		return nil
	}
	if err := c.evaluate(ctx); err != nil {
		return err
	}
	switch {
	case c.verdict.Effect() == policy.Allow:
		return c.resolve(ctx)
	case c.verdict.Effect() == policy.Ask && !c.stillEnough():
		c.answer = approval.Answer{}
	}
	return nil
}

func (c *call) evaluate(ctx context.Context) error {
	grants, err := c.Approver.Grants(ctx, approval.GrantQuery{
		Principal: c.sub.Caller.Principal, OnBehalfOf: c.sub.Caller.OnBehalfOf, Session: c.proposal.Session,
		Tool: c.proposal.Tool.Name, Subject: c.plan.Subject, CallDigest: c.digest,
	})
	if err != nil {
		return err
	}
	verdict, err := c.Evaluator.Evaluate(ctx, c.request, policyGrants(grants, c.request.Time))
	if err != nil {
		return reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	c.verdict = verdict
	request := c.request
	request.Args = nil
	return c.draft(event.Evaluated, EvaluatedPayload{
		ProposalID: c.proposal.ID, CallDigest: c.digest, Verdict: verdict, Request: request,
	})
}

// resolve finds the answer that the verdict needs. Nobody is asked about a
// call that has no budget left.
func (c *call) resolve(ctx context.Context) error {
	switch {
	case c.budget.Used > c.budget.Limit, c.verdict.Effect() == policy.Deny:
		return nil
	case c.verdict.Effect() == policy.Allow && c.verdict.GrantID() == "":
		c.answer = approval.NotNeeded()
		return nil
	}
	ask, err := c.ask()
	if err != nil {
		return err
	}
	if c.verdict.Effect() == policy.Allow {
		c.answer, err = c.Approver.GrantAnswer(ctx, c.verdict.GrantID(), ask)
		return err
	}
	// What led to the ask is durable before anyone is asked.
	if err := c.flush(ctx); err != nil {
		return err
	}
	c.answer, err = c.Approver.Resolve(ctx, ask, func(r approval.Record) { c.observe(Event{Asked: &r}) })
	if err != nil {
		return err
	}
	answer := c.answer
	c.observe(Event{Resolved: &answer})
	return nil
}

// stillEnough asks the policy now in force about the votes that were cast.
func (c *call) stillEnough() bool {
	votes := policyVotes(c.answer.Votes())
	return c.Evaluator.Current().Judge(c.request, policy.Approval{Votes: votes, Now: time.Now().UTC()}).Allowed
}

// decide makes the decision durable. An approval or grant is used up in the
// same transaction, so that a revoke or a second call cannot slip between.
func (c *call) decide(ctx context.Context) (decision.Record, *decision.Permit, error) {
	record, permit := decision.Make(decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: c.proposal.ID, CallDigest: c.digest,
		Verdict: c.verdict, Answer: c.answer, Budget: c.budget, Now: time.Now().UTC(),
	})
	record, permit, err := c.writeDecision(context.WithoutCancel(ctx), record, permit)
	if err != nil {
		return record, nil, err
	}
	c.observe(Event{Decision: &record})
	return record, permit, nil
}

func (c *call) writeDecision(ctx context.Context, record decision.Record, permit *decision.Permit) (decision.Record, *decision.Permit, error) {
	if permit == nil || !usesAnswer(c.answer) {
		if err := c.draft(event.Decided, record); err != nil {
			return record, nil, err
		}
		return record, permit, c.flush(ctx)
	}
	if err := c.flush(ctx); err != nil {
		return record, nil, err
	}
	decided, err := newDraft(event.Decided, c.proposal, record)
	if err != nil {
		return record, nil, err
	}
	err = c.Approver.Consume(ctx, c.answer, decided)
	if lost := answerLost(err); lost != nil {
		// Somebody revoked, used or outlived the answer first: the call is
		// denied, and the denial is what gets recorded.
		record.Allowed, record.Reason, record.Message, record.Remedy = false, lost.Code, lost.Message, lost.NextStep()
		if err := c.draft(event.Decided, record); err != nil {
			return record, nil, err
		}
		return record, nil, c.flush(ctx)
	}
	return record, permit, err
}

// usesAnswer reports whether the decision uses an approval or a grant.
func usesAnswer(a approval.Answer) bool {
	return a.Kind() == approval.ByApproval || a.Kind() == approval.ByGrant
}

// answerLost returns the reason when err says that the answer is no longer
// good, and nil when it says anything else.
func answerLost(err error) *reason.Error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return nil
	}
	switch known.Code {
	case reason.ApprovalRevoked, reason.ApprovalExpired, reason.ApprovalConflict, reason.ApprovalCancelled,
		reason.ApprovalDenied, reason.BindingMismatch, reason.GatewayFrozen, reason.NotFound:
		return known
	}
	return nil
}

func (c *call) dispatch(ctx context.Context, permit *decision.Permit) tool.Report {
	return c.Dispatcher.Run(ctx, dispatch.Decided{
		Permit: permit, Proposal: c.proposal, Plan: c.plan,
		Output: func(stream string, chunk []byte) { c.observe(Event{Output: &Chunk{Stream: stream, Data: chunk}}) },
	})
}

// attest signs what happened and makes it durable; only then does the result
// leave. ctx must outlive the client.
func (c *call) attest(ctx context.Context, record decision.Record, report tool.Report) (Outcome, error) {
	envelope, err := c.Notary.Sign(ctx, c.execution(record, report))
	if err != nil {
		return Outcome{Decision: record}, reason.Errorf(reason.AttestationFailed, "signing the attestation: %w", err)
	}
	payload := AttestedPayload{
		AttestationID: envelope.ID, ProposalID: c.proposal.ID, DecisionID: record.ID,
		Tool: c.proposal.Tool.Name, Report: report, Envelope: envelope.JSON,
	}
	if len(report.Result) > 0 {
		payload.ResultBlob = canonical.Digest(report.Result)
		c.pending.Blobs = append(c.pending.Blobs, report.Result)
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
	c.observe(Event{Result: &outcome.Report})
	c.observe(Event{Attestation: &outcome.Attestation})
	return outcome, nil
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
	return attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: c.proposal.ID, DecisionID: record.ID,
		ApprovalID: record.ApprovalID, GrantID: record.GrantID,
		Session: c.proposal.Session, Run: c.proposal.Run,
		Principal: c.sub.Caller.Principal.String(), OnBehalfOf: c.sub.Caller.OnBehalfOf.String(),
		Tool: c.proposal.Tool.Name, ToolDefinitionDigest: c.plan.Binding.ToolDefinitionDigest,
		CallDigest: c.digest, ArgumentsDigest: canonical.Digest(c.proposal.Input),
		PolicyVersion: record.PolicyVersion, SnapshotDigest: record.SnapshotDigest, Determining: determining,
		Operands: c.plan.Binding.Operands, Executable: c.plan.Binding.Executable,
		ProposedAt: c.proposedAt, DecidedAt: record.At, ApprovedAt: approvedAt, Report: report,
	}
}

// refuse records why a call ended before it was decided and returns the
// error. A refusal that cannot be recorded is an outage of the journal.
func (c *call) refuse(ctx context.Context, cause error) error {
	known := &reason.Error{}
	if !errors.As(cause, &known) {
		known = reason.Errorf(reason.Internal, "%s", reason.Lookup(reason.Internal).Sentence)
	}
	if known.Code == reason.JournalUnavailable {
		return cause
	}
	err := c.draft(event.Refused, RefusedPayload{
		ProposalID: c.proposal.ID, Principal: c.sub.Caller.Principal.String(), Tool: clip(c.sub.Tool),
		Reason: known.Code, Message: known.Message, Remedy: known.NextStep(),
	})
	if err == nil {
		err = c.flush(context.WithoutCancel(ctx))
	}
	if err != nil {
		return err
	}
	return cause
}

// draft adds an event to the next durable write.
func (c *call) draft(code event.Code, payload any) error {
	d, err := newDraft(code, c.proposal, payload)
	if err != nil {
		return err
	}
	c.pending.Drafts = append(c.pending.Drafts, d)
	return nil
}

func (c *call) flush(ctx context.Context) error {
	_, err := c.record(ctx)
	return err
}

func (c *call) record(ctx context.Context) (int64, error) {
	if len(c.pending.Drafts) == 0 {
		return 0, nil
	}
	entry := c.pending
	c.pending = Entry{}
	seq, err := c.Ledger.Record(context.WithoutCancel(ctx), entry)
	if err != nil && reason.Of(err) == reason.Internal {
		return 0, reason.Errorf(reason.JournalUnavailable, "writing the journal: %w", err)
	}
	return seq, err
}

func newDraft(code event.Code, p tool.Proposal, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, err
	}
	return event.Draft{
		Code: code, Session: p.Session, Run: p.Run, Actor: p.Caller.Principal.String(), Subject: p.ID, Payload: text,
	}, nil
}

func clip(name string) string {
	const most = 128
	if len(name) > most {
		return name[:most]
	}
	return name
}
