package call

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// inlineArguments is the largest input that is written into the journal; a
// larger one is a blob that the journal names by digest, and so is any that takesContent.
const inlineArguments = 16 << 10

// authorization is what policy, and people where it asks, are asked about: a
// call, or what a call changed. It comes to a verdict and an answer.
type authorization struct {
	*Pipeline
	sub     *Submission
	observe func(Event)

	proposal tool.Proposal
	// counted is the call as its session counts it; nil for a dry run.
	counted *session.Call
	plan    tool.Plan
	// conflict is set when the content of files prevents the call. It is returned only if
	// policy does not deny the call.
	conflict *tool.RestrictedError
	digest   string
	request  policy.Request
	budget   decision.Budget
	verdict  policy.Verdict
	answer   approval.Answer
	// argumentsDigest is what the evidence says of the input.
	argumentsDigest string
	// edited and edits say how people changed the call; nil for a call as it was
	// proposed.
	edited *tool.Edited
	edits  []approval.Edit
	// waited is true when people were asked.
	waited bool
	// joined is true once it was tried to take the answer of an announced call.
	joined bool
	// subjectType and subjectID say what people are asked about, "" for the call itself.
	subjectType approval.SubjectType
	subjectID   string
	// ran is that of the call whose changes or secret this one is about, nil for a
	// call.
	ran *authorization
	// injected are those of the secrets that the program gets, as far as they are
	// decided.
	injected []*authorization
	// pending is what the next durable write takes along.
	pending Entry
}

// call is one submission on its way through the stages.
type call struct {
	authorization
	claim      *Claim
	proposedAt time.Time
	// reason is why the caller wants it, as it is kept.
	reason string
	// elsewhere is true when another gateway runs it.
	elsewhere bool
	// exchanged is zero when the call did not run.
	exchanged session.Traffic
	// journal is the newest durable event when the call was proposed.
	journal attest.Journal
	// atOnce is true when the decision becomes durable with the outcome.
	atOnce bool
	// decisionID is of the decision that let the call run.
	decisionID string
	// running is true while its tool runs.
	running atomic.Bool
	// asked is the approval that it waits for, nil when it waits for none.
	asked atomic.Pointer[string]
	// left is closed when the call has ended, nil while nobody waits for that.
	// Pipeline.mu guards it.
	left chan struct{}
}

// handle is the pipeline: each line of prepare and conclude is one stage of the
// package comment. The outcome is never nil. It is a pointer to keep the stack
// small, since thousands of calls may wait at once.
func (p *Pipeline) handle(ctx context.Context, s *Submission, claim *Claim, observe func(Event)) (*Outcome, error) {
	ctx = access.Precede(ctx, s.Precedence)
	c := newCall(p, s, claim, observe)
	ctx, leave := p.track(ctx, c)
	defer leave()
	end, err := p.bring(s)
	switch {
	case err != nil && len(s.Lead) > 0: // which has to be on record
		return &Outcome{}, c.refuse(ctx, err)
	case err != nil: // it leaves nothing behind
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

// leftEarly is why a call whose context ended goes no further: somebody ended it, or
// its client left.
func leftEarly(ctx context.Context, when string) error {
	known := &reason.Error{}
	if errors.As(context.Cause(ctx), &known) {
		return known
	}
	return reason.Errorf(reason.Cancelled, "the caller left %s: %w", when, ctx.Err())
}

// prepare are the stages up to the answer; an error refuses the call.
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

// conclude are the stages from the decision on.
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
		// What was let begin shall get its end on record.
		ctx = access.Precede(ctx, access.PrecedenceEnding)
	}
	c.running.Store(true)
	c.dispatch(ctx, permit, &o.Report)
	c.running.Store(false)
	err = c.attest(context.WithoutCancel(ctx), o)
	c.logFailure(ctx, &o.Report)
	if err != nil { // what is not attested is not told
		return &Outcome{Decision: o.Decision}, err
	}
	return o, nil
}

// logFailure tells the log of a call that did not succeed. What its tool said of it
// is in the journal alone.
func (c *call) logFailure(ctx context.Context, r *tool.Report) {
	if c.Log == nil || r.Outcome == tool.Succeeded {
		return
	}
	c.Log.InfoContext(ctx, "a call did not succeed", slog.String("proposal", c.proposal.ID), slog.String("tool", c.proposal.Tool.Name),
		slog.String("principal", c.sub.Caller.Principal.String()), slog.String("outcome", string(r.Outcome)), slog.String("reason", r.Reason))
}

// newCall gives a submission its identity.
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

// propose checks the input.
func (c *call) propose(ctx context.Context) error {
	if ctx.Err() != nil {
		return leftEarly(ctx, "before the call began")
	}
	descriptor, input, err := c.Dispatcher.Check(c.sub.Tool, c.sub.Input)
	if err != nil {
		return err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	if c.reason, err = requesterReason(c.sub.Reason); err != nil {
		return err
	}
	// Every call may return something, and what it returned is kept.
	if err := c.Ledger.Ready(ctx); err != nil {
		return err
	}
	if err := c.addProposed(); err != nil {
		return err
	}
	c.observe(Event{Proposed: &Proposed{
		ProposalID: c.proposal.ID, CallID: c.sub.CallID, Session: c.proposal.Session, Run: c.proposal.Run,
		Tool: descriptor.Name, InputDigest: canonical.Digest(input),
	}})
	if c.Dispatcher.Frozen() {
		return reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return nil
}

func (c *call) addProposed() error {
	arguments, redactions, err := tool.Redact(c.proposal.Input, c.proposal.Tool.SecretPaths)
	if err != nil {
		return err
	}
	size, head := c.Ledger.Head()
	c.journal = attest.Journal{Size: size, HeadSHA256: hex.EncodeToString(head[:])}
	payload := record.Proposed{
		ProposalID:           c.proposal.ID,
		CallID:               c.sub.CallID,
		Principal:            c.sub.Caller.Principal.String(),
		OnBehalfOf:           c.sub.Caller.OnBehalfOf.String(),
		DeviceID:             c.sub.Caller.DeviceID,
		Surface:              c.sub.Caller.Surface,
		Transport:            c.sub.Caller.Transport,
		Channel:              c.proposal.Channel,
		Tool:                 c.proposal.Tool.Name,
		ToolDefinitionDigest: c.Dispatcher.Digest(c.proposal.Tool.Name),
		ArgumentsDigest:      canonical.Digest(c.proposal.Input),
		Redactions:           redactions,
		IdempotencyKey:       c.sub.IdempotencyKey,
		GatewaySession:       c.sessionID(),
		OpenWorld:            c.proposal.Tool.OpenWorld,
		Journal:              &c.journal,
	}
	if len(redactions) > 0 {
		// Beside the rest of the arguments, a plain digest would let anybody
		// test guesses of the secret.
		payload.ArgumentsSalt = rand.Text()
		payload.ArgumentsDigest = canonical.Digest(append([]byte(payload.ArgumentsSalt), c.proposal.Input...))
	}
	c.argumentsDigest = payload.ArgumentsDigest
	if len(arguments) > inlineArguments || takesContent(c.proposal.Tool) {
		payload.ArgumentsBlob = canonical.Digest(arguments)
		c.pending.Blobs = append(c.pending.Blobs, arguments)
	} else {
		payload.Arguments = arguments
	}
	return c.draft(event.Proposed, payload)
}

// takesContent reports whether the content of a file may be among a tool's arguments,
// such as what it writes or sends: those that only read take none. The journal keeps
// what it is given for ever and in plain, so that it gets the digest of such arguments.
func takesContent(d tool.Descriptor) bool {
	return slices.ContainsFunc(d.Capabilities, func(c tool.Capability) bool { return c != tool.FilesystemRead && c != tool.SecretsRead })
}

// planned is a call that is not made, with what it would do. It is nil when the arguments are
// refused, and is there when planning fails, which may have read files.
func (p *Pipeline) planned(ctx context.Context, s *Submission) (*call, error) {
	c := newCall(p, s, nil, func(Event) {})
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return nil, err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	return c, c.planCall(ctx, tool.SessionFacts{CallsInRun: 1})
}

// planCall works out what the call would do, as facts for policy.
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

// capabilities are those that a call of a tool asks for.
func capabilities(d *tool.Descriptor, facts *tool.Facts) []tool.Capability {
	if len(facts.Secrets) > 0 && !slices.Contains(d.Capabilities, tool.SecretsRead) {
		return append(slices.Clone(d.Capabilities), tool.SecretsRead)
	}
	return d.Capabilities
}

// policyRequest is the planned call as policy gets it.
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
