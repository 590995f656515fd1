package call

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// scope is the context that all stages of one call share: the services, the submission, the
// session that counts the call, and the events that are not durable yet.
type scope struct {
	*services
	sub *Submission
	// ids is the proposal before its check: its ids, caller and tool name, without input.
	ids tool.Proposal
	// counted is the call as its session counts it; nil for a dry run.
	counted *session.Call
	drafts  *drafts
	observe func(Event)
}

// call is one submission on its way through the stages. Each stage is a function from the value of
// the stage before to its own:
//
//	propose  the submission   proposed   input checked, proposal drafted
//	plan     proposed         question   effects known, as facts for policy
//	settle   question         answered   verdict and answer agree
//	decide   answered         decided    decision durable, permit minted
//	execute  decided          executed   tool ended
//	attest   executed         Outcome    attestation durable
//
// A stage MUST NOT change the value that it gets, and its own value MUST NOT change after it
// returned.
type call struct {
	scope
	claim      *Claim
	proposedAt time.Time
	// elsewhere is true if another gateway runs the call.
	elsewhere bool
	// running is true while the tool runs.
	running atomic.Bool
	// asked is the pending approval of the call, nil if it waits for none.
	asked atomic.Pointer[string]
	// left is closed when the call has ended; nil while no goroutine waits for that.
	// callsUnderWay.mu guards it.
	left chan struct{}
}

// newCall assigns the ids of a submission.
func newCall(p *services, s *Submission, claim *Claim, observe func(Event)) *call {
	c := &call{claim: claim, proposedAt: time.Now().UTC()}
	c.ids = tool.Proposal{
		ID:      ulid.Make().String(),
		Caller:  s.Caller,
		Session: SessionID(s.Caller, s.Session),
		Run:     s.Run,
		Channel: s.Channel,
		Tool:    tool.Descriptor{Name: s.Tool},
	}
	if c.ids.Run == "" {
		c.ids.Run = c.ids.ID
	}
	c.services, c.sub, c.observe = p, s, func(e Event) {
		c.noteAsk(&e)
		observe(e)
	}
	c.drafts = &drafts{ledger: p.Ledger, of: &c.ids, Entry: Entry{Drafts: slices.Clone(s.Lead), Blobs: slices.Clone(s.LeadBlobs)}}
	if claim != nil {
		claim.ProposalID = c.ids.ID
		c.drafts.Claim = claim
	}
	return c
}

// handle runs a call through the stages. The outcome is never nil. It is a pointer to keep the
// stack small, since thousands of calls may wait at once.
func (p *Pipeline) handle(ctx context.Context, s *Submission, claim *Claim, observe func(Event)) (*Outcome, error) {
	ctx = access.Precede(ctx, s.Precedence)
	c := newCall(p.services, s, claim, observe)
	ctx, leave := p.underWay.track(ctx, c)
	defer leave()
	if p.Quota != nil {
		end, err := p.Quota.Begin(s.Caller, s.Precedence, int64(len(s.Input)))
		switch {
		case err != nil && len(s.Lead) > 0: // its lead must be journaled
			return &Outcome{}, c.refuse(ctx, err)
		case err != nil: // the refusal leaves no record
			return &Outcome{}, err
		}
		defer end()
	}
	if err := c.begin(ctx); err != nil {
		return &Outcome{}, c.refuse(ctx, err)
	}
	var traffic session.Traffic
	defer func() { c.counted.End(traffic) }()
	answered, err := c.prepare(ctx)
	if err != nil {
		return &Outcome{}, c.refuse(ctx, err)
	}
	return c.conclude(ctx, answered, &traffic)
}

// prepare runs the stages up to the answer; an error refuses the call.
func (c *call) prepare(ctx context.Context) (*answered, error) {
	budget := c.budget()
	proposed, err := c.propose(ctx)
	if err != nil {
		return nil, err
	}
	question, err := c.plan(ctx, proposed, c.counted.Facts())
	if err != nil {
		return nil, err
	}
	answered, err := question.settle(ctx, budget)
	if err != nil {
		return nil, err
	}
	return answered, answered.useSecrets(ctx)
}

// conclude runs the stages from the decision on. It sets the traffic of a call that ran.
func (c *call) conclude(ctx context.Context, answered *answered, traffic *session.Traffic) (*Outcome, error) {
	decided, err := c.decide(ctx, answered)
	if err != nil {
		return &Outcome{}, err
	}
	if decided.permit == nil {
		return &Outcome{Decision: decided.record}, nil
	}
	if !decided.atOnce {
		// Once a call may start, its outcome must be recorded.
		ctx = access.Precede(ctx, access.PrecedenceEnding)
	}
	c.running.Store(true)
	executed := c.execute(ctx, decided)
	c.running.Store(false)
	*traffic = executed.traffic
	o, err := c.attest(context.WithoutCancel(ctx), executed)
	if err != nil { // A result is returned only after its attestation is durable.
		return &Outcome{Decision: decided.record}, err
	}
	return o, nil
}

// leftEarly returns why a call stops: it was cancelled, or its client disconnected.
func leftEarly(ctx context.Context, when string) error {
	known := &reason.Error{}
	if errors.As(context.Cause(ctx), &known) {
		return known
	}
	return reason.Errorf(reason.Cancelled, "the caller disconnected %s: %w", when, ctx.Err())
}

// begin counts the call in its session and, if it belongs to one, in its gateway run.
func (c *call) begin(ctx context.Context) error {
	run := ""
	if c.sub.MaxCalls > 0 {
		run = c.sub.Run
	}
	counted, err := c.sessions.Begin(ctx, c.sub.Caller, run)
	if err != nil {
		return err
	}
	c.counted, c.drafts.stored = counted, counted.Stored
	member := counted.Member(c.ids.ID)
	c.drafts.Member = &member
	return nil
}

// budget returns the budget that the call counts against.
func (s *scope) budget() decision.Budget {
	used, limit := s.counted.Budget(min(s.sub.MaxCalls, s.MaxCallsPerRun), s.MaxCallsPerSession)
	b := decision.Budget{Limit: limit, Used: used}
	if s.sub.MaxCalls == 0 {
		b.Session = s.counted.Session()
	}
	return b
}

// sessionID returns the session that counts the call, or "" for a dry run.
func (s *scope) sessionID() string {
	if s.counted == nil {
		return ""
	}
	return s.counted.Session()
}

// pastSessions computes the state of past sessions from the ledger.
type pastSessions struct{ Ledger }

// NewestSession implements session.Store.
func (s pastSessions) NewestSession(ctx context.Context, k session.Key) (session.Past, bool, error) {
	var facts record.Facts
	past, found, err := s.Ledger.NewestSession(ctx, k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}

// SessionID identifies the session of a caller by its credential and by the name that the
// client declared, or "default" if it declared none.
func SessionID(c access.Caller, declared string) string {
	return c.DeviceID + "." + cmp.Or(declared, "default")
}
