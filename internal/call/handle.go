package call

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// authorization is a request to policy, and to approvers where policy requires them, about a
// call or about the changes of a call. Its result is a verdict and an answer.
type authorization struct {
	*Pipeline
	sub     *Submission
	observe func(Event)

	proposal tool.Proposal
	// counted is the call as its session counts it; nil for a dry run.
	counted *session.Call
	plan    tool.Plan
	// conflict is set if the content of files prevents the call. It is returned only if policy
	// does not deny the call.
	conflict *tool.RestrictedError
	digest   string
	request  policy.Request
	budget   decision.Budget
	verdict  policy.Verdict
	answer   approval.Answer
	// argumentsDigest is the digest of the input in the evidence.
	argumentsDigest string
	// edited and edits describe how people changed the call; both are nil for an unedited call.
	edited *tool.Edited
	edits  []approval.Edit
	// waited is true if an approval was requested.
	waited bool
	// joined is true after the attempt to use the answer of an announced call.
	joined bool
	// subjectType and subjectID identify the subject of the approval; both are "" for the call
	// itself.
	subjectType approval.SubjectType
	subjectID   string
	// ran is the authorization of the call whose changes or secret this one is about, nil for a
	// call.
	ran *authorization
	// injected are the authorizations, decided so far, of the secrets for the program.
	injected []*authorization
	// pending is written with the next durable entry.
	pending Entry
}

// call is one submission on its way through the stages.
type call struct {
	authorization
	claim      *Claim
	proposedAt time.Time
	// reason is the requester's reason in its stored form.
	reason string
	// elsewhere is true if another gateway runs the call.
	elsewhere bool
	// exchanged is zero if the call did not run.
	exchanged session.Traffic
	// journal is the newest durable event at the time of the proposal.
	journal attest.Journal
	// atOnce is true if the decision becomes durable together with the outcome.
	atOnce bool
	// decisionID identifies the decision that allowed the call.
	decisionID string
	// running is true while the tool runs.
	running atomic.Bool
	// asked is the pending approval of the call, nil if it waits for none.
	asked atomic.Pointer[string]
	// left is closed when the call has ended; nil while no goroutine waits for that.
	// Pipeline.mu guards it.
	left chan struct{}
}

// handle is the pipeline: each line of prepare and conclude is one stage of the package
// comment. The outcome is never nil. It is a pointer to keep the stack small, since thousands
// of calls may wait at once.
func (p *Pipeline) handle(ctx context.Context, s *Submission, claim *Claim, observe func(Event)) (*Outcome, error) {
	ctx = access.Precede(ctx, s.Precedence)
	c := newCall(p, s, claim, observe)
	ctx, leave := p.track(ctx, c)
	defer leave()
	end, err := p.bring(s)
	switch {
	case err != nil && len(s.Lead) > 0: // its lead must be journaled
		return &Outcome{}, c.refuse(ctx, err)
	case err != nil: // the refusal leaves no record
		return &Outcome{}, err
	}
	defer end()
	if err := c.begin(ctx); err != nil {
		return &Outcome{}, c.refuse(ctx, err)
	}
	defer c.end()
	if err := c.prepare(ctx); err != nil {
		return &Outcome{}, c.refuse(ctx, err)
	}
	return c.conclude(ctx)
}

// leftEarly returns the reason why a call whose context ended stops: it was cancelled, or its
// client disconnected.
func leftEarly(ctx context.Context, when string) error {
	known := &reason.Error{}
	if errors.As(context.Cause(ctx), &known) {
		return known
	}
	return reason.Errorf(reason.Cancelled, "the caller disconnected %s: %w", when, ctx.Err())
}

// prepare runs the stages up to the answer; an error refuses the call.
func (c *call) prepare(ctx context.Context) error {
	if err := c.propose(ctx); err != nil {
		return err
	}
	if err := c.planCall(ctx, c.counted.Facts()); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return c.useInjections(ctx)
}

// conclude runs the stages from the decision on.
func (c *call) conclude(ctx context.Context) (*Outcome, error) {
	o := &Outcome{}
	permit, err := c.decide(ctx, &o.Decision)
	if err != nil {
		return &Outcome{}, err
	}
	if permit == nil {
		return o, nil
	}
	if !c.atOnce {
		// Once a call may start, its outcome must be recorded.
		ctx = access.Precede(ctx, access.PrecedenceEnding)
	}
	c.running.Store(true)
	c.dispatch(ctx, permit, &o.Report)
	c.running.Store(false)
	err = c.attest(context.WithoutCancel(ctx), o)
	c.logFailure(ctx, &o.Report)
	if err != nil { // A result is returned only after its attestation is durable.
		return &Outcome{Decision: o.Decision}, err
	}
	return o, nil
}

// logFailure logs a call that did not succeed. The tool's message is only in the journal.
func (c *call) logFailure(ctx context.Context, r *tool.Report) {
	if c.Log == nil || r.Outcome == tool.Succeeded {
		return
	}
	c.Log.InfoContext(ctx, "a call did not succeed", slog.String("proposal", c.proposal.ID), slog.String("tool", c.proposal.Tool.Name),
		slog.String("principal", c.sub.Caller.Principal.String()), slog.String("outcome", string(r.Outcome)), slog.String("reason", r.Reason))
}

// newCall assigns the ids of a submission.
func newCall(p *Pipeline, s *Submission, claim *Claim, observe func(Event)) *call {
	c := &call{claim: claim, proposedAt: time.Now().UTC()}
	c.authorization = authorization{Pipeline: p, sub: s, observe: func(e Event) {
		c.noteAsk(&e)
		observe(e)
	}}
	c.proposal = tool.Proposal{
		ID:      ulid.Make().String(),
		Caller:  s.Caller,
		Session: SessionID(s.Caller, s.Session),
		Run:     s.Run,
		Channel: s.Channel,
		Tool:    tool.Descriptor{Name: s.Tool},
	}
	if c.proposal.Run == "" {
		c.proposal.Run = c.proposal.ID
	}
	c.pending.Drafts, c.pending.Blobs = slices.Clone(s.Lead), slices.Clone(s.LeadBlobs)
	if claim != nil {
		claim.ProposalID = c.proposal.ID
		c.pending.Claim = claim
	}
	return c
}

// planned plans a call that is not made. The call is nil if the arguments are refused. It is
// not nil if planning fails, because planning may have read files.
func (p *Pipeline) planned(ctx context.Context, s *Submission) (*call, error) {
	c := newCall(p, s, nil, func(Event) {})
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return nil, err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	return c, c.planCall(ctx, tool.SessionFacts{CallsInRun: 1})
}

// planCall determines the effects of the call, as facts for policy.
func (c *call) planCall(ctx context.Context, session tool.SessionFacts) (err error) {
	if c.plan, err = c.Dispatcher.Plan(ctx, c.proposal); errors.As(err, &c.conflict) {
		c.plan, err = c.conflict.Plan, nil
	}
	if err != nil {
		return err
	}
	if c.elsewhere {
		c.plan.RunElsewhere()
	}
	if c.digest, err = c.plan.Binding.Digest(); err != nil {
		return err
	}
	c.request = c.policyRequest(session)
	return nil
}

// capabilities returns the capabilities that a call of a tool requests.
func capabilities(d *tool.Descriptor, facts *tool.Facts) []tool.Capability {
	if len(facts.Secrets) > 0 && !slices.Contains(d.Capabilities, tool.SecretsRead) {
		return append(slices.Clone(d.Capabilities), tool.SecretsRead)
	}
	return d.Capabilities
}

// policyRequest returns the planned call as a policy request.
func (c *call) policyRequest(session tool.SessionFacts) policy.Request {
	return policy.Request{
		Caller:          c.sub.Caller,
		Tool:            c.proposal.Tool.Name,
		Capabilities:    capabilities(&c.proposal.Tool, &c.plan.Facts),
		Args:            c.proposal.Input,
		Session:         c.proposal.Session,
		Run:             c.proposal.Run,
		GatewaySession:  c.sessionID(),
		Channel:         c.proposal.Channel,
		SkillID:         c.proposal.Tool.Skill,
		RequesterReason: c.reason,
		Facts:           c.plan.Facts,
		SessionFacts:    session,
		Time:            c.proposedAt,
	}
}
