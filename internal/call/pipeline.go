// Package call is the one place where the stages of a call meet, in their
// order: proposal, policy, approval, decision, dispatch, executor,
// attestation, journal. Every surface calls Pipeline.Call; there is no second
// way to run a tool.
//
// Each stage gets what the one before it returned, and calls none of them back. A
// stage that fails ends the call: nothing runs that was not decided, nothing with
// an effect runs before its decision is durable, and a result is sent only after
// its attestation is durable.
package call

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Evaluator gives Cedar's verdict.
type Evaluator interface {
	Evaluate(ctx context.Context, r policy.Request, grants []policy.Grant) (policy.Verdict, error)
	Current() *policy.Set
}

// Approver finds standing grants, asks humans, and uses their answers up.
type Approver interface {
	Grants(ctx context.Context, q approval.GrantQuery) ([]approval.Grant, error)
	GrantAnswer(ctx context.Context, grantID string, ask approval.Ask) (approval.Answer, error)
	Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error)
	Consume(ctx context.Context, a approval.Answer, extra ...event.Draft) error
	// MayEdit says whether the caller may change the call of a record that it was
	// shown; Edit puts another in its place.
	MayEdit(ctx context.Context, caller access.Caller, id string, version int64, shown string) (approval.Record, error)
	Edit(ctx context.Context, caller access.Caller, id string, a approval.Amendment) (approval.Record, error)
	// Release gives back an answer that its call will not use.
	Release(a approval.Answer)
	// Recheck is asked right before the call starts, so that a revoke or a
	// freeze beats a call that was decided already.
	Recheck(ctx context.Context, a approval.Answer) error
}

// Dispatcher checks inputs, plans calls and runs decided ones.
type Dispatcher interface {
	Check(name string, input []byte) (tool.Descriptor, []byte, error)
	// Digest is the digest of a tool's definition.
	Digest(name string) string
	Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error)
	// Resolved says what a planned call does, whatever its arguments look like.
	Resolved(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
	Run(ctx context.Context, d *dispatch.Decided) tool.Report
	// Effectless reports whether a tool cannot have an effect.
	Effectless(name string) bool
	Frozen() bool
}

// Notary signs attestations.
type Notary interface {
	Sign(ctx context.Context, e attest.Execution) (attest.Envelope, error)
}

// Ledger is the journal and the rows that commit with it.
type Ledger interface {
	// Record makes an entry durable, all of it or nothing. It returns the
	// sequence number of the last event.
	Record(ctx context.Context, e Entry) (int64, error)
	// Ready reports whether what calls return can be kept: reason.VaultLocked while
	// the key is locked that it is kept under.
	Ready(ctx context.Context) error
	// Events returns a page of the events that match the filter, Blob what is
	// stored under a digest.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
	Blob(ctx context.Context, digest string) ([]byte, error)
	// NewestSession finds the newest session of a key, and Session one by its id.
	// They call each with the session's events and those of its calls, from which
	// the caller works out what the session did.
	NewestSession(ctx context.Context, k session.Key, each EachEvent) (session.Past, bool, error)
	Session(ctx context.Context, id string, each EachEvent) (session.Past, bool, error)
	// Sessions returns a page of sessions, newest first, and the token of the
	// next page. Of Past.Did, only the number of calls and LastAt are set.
	Sessions(ctx context.Context, f session.Filter) ([]session.Past, string, error)
	// Calls returns a page of the ids of calls, newest first, and the token of the
	// next page. It goes by whose they are and by their run.
	Calls(ctx context.Context, f Filter) (ids []string, next string, err error)
	// RunCalls counts the calls that a run of the gateway made.
	RunCalls(ctx context.Context, p access.Principal, run string) (int, error)
	// EndSession stores the end of a session together with an event.
	EndSession(ctx context.Context, e session.Ending, d event.Draft) error
	// Claimed returns the claim of an idempotency key, if there is one.
	Claimed(ctx context.Context, p access.Principal, key string) (Claim, bool, error)
	// Head is the number of durable events and the hash of the newest one. It
	// reads them from memory.
	Head() (size int64, hash [32]byte)
	// OpenCalls lists the calls that were decided and have no end.
	OpenCalls(ctx context.Context) ([]OpenCall, error)
}

// EachEvent is called with each event of a session and of its calls. e is valid
// until it returns. ofRun says that the event is of a call of one of the gateway's
// runs. An error ends the reading.
type EachEvent func(e *journal.Event, ofRun bool) error

// Config is what a Pipeline needs. Every field but Looked, Log and Quota is required.
type Config struct {
	Evaluator  Evaluator
	Approver   Approver
	Dispatcher Dispatcher
	Notary     Notary
	Ledger     Ledger
	// MaxCallsPerRun is the budget of a run of the gateway, MaxCallsPerSession
	// that of all other calls of a session; every proposal counts.
	MaxCallsPerRun     int
	MaxCallsPerSession int
	// SessionIdle is the time without a call after which a session ends.
	SessionIdle time.Duration
	// LiveDevice reports whether a device was not revoked; votes from a revoked
	// one do not count.
	LiveDevice func(id string) bool
	// Standing says why a caller may not go on: its credential was revoked or has ended,
	// or what it may do was reduced, since it came in. It is asked at the decision of a
	// call, right before the call starts, and before its changes are committed.
	Standing func(access.Caller) error
	// Looked is told of calls that were evaluated or explained and not made; nil is not. It
	// waits for nothing.
	Looked func(Look)
	// Log gets the causes of INTERNAL errors, which callers are not told; nil
	// discards.
	Log *slog.Logger
	// Quota bounds the bytes of callers; nil bounds nothing.
	Quota Quota
}

// Pipeline runs calls through the stages.
type Pipeline struct {
	Config
	sessions *session.Book
	keyed    *keyedCalls
	// control switches protections off, in tests that show what they are for.
	control control

	mu      sync.Mutex
	closing bool
	calls   sync.WaitGroup
	// live are the calls under way, with what ends each. late is true once the
	// time is up that they have after the order to stop.
	live map[*call]context.CancelCauseFunc
	late bool
	// waiting are the calls that people can edit, by their approval.
	waiting map[string]*waiting
}

// New checks that every stage is there.
func New(cfg Config) (*Pipeline, error) {
	if cfg.Evaluator == nil || cfg.Approver == nil || cfg.Dispatcher == nil || cfg.Notary == nil || cfg.Ledger == nil || cfg.LiveDevice == nil || cfg.Standing == nil {
		return nil, errors.New("the pipeline needs all of its stages")
	}
	if cfg.MaxCallsPerRun <= 0 || cfg.MaxCallsPerSession <= 0 || cfg.SessionIdle <= 0 {
		return nil, errors.New("max_calls_per_run, max_calls_per_session and sessions.idle must be positive")
	}
	return &Pipeline{Config: cfg, sessions: session.NewBook(pastSessions{cfg.Ledger}, cfg.SessionIdle), keyed: newKeyedCalls(), live: make(map[*call]context.CancelCauseFunc), waiting: make(map[string]*waiting)}, nil
}

// Submission is one request to call a tool, from an authenticated caller.
type Submission struct {
	Caller access.Caller
	// Asker gets the answer where that is another than the caller, as by AuthZEN; zero for
	// others. It is told of files only what both may read.
	Asker access.Caller
	Tool  string
	// Input is the JSON that the client sent; empty means {}.
	Input []byte
	// Session and Run are names that the client gives; an empty Session means
	// "default", an empty Run a run of this call alone. (The gateway counts by
	// sessions that it names itself, see package session.) With MaxCalls, Run is
	// the gateway's name of a run.
	Session string
	Run     string
	Channel string
	// IdempotencyKey makes a retry get the first call instead of a second.
	IdempotencyKey string
	// CallID is the id that a model gave the call; "" for others.
	CallID string
	// MaxCalls is set for calls of a run that the gateway drives: such a run may
	// make at most MaxCalls calls, or Config.MaxCallsPerRun when that is less.
	// 0 for all other calls, which count in their session.
	MaxCalls int
	// Precedence says how far the writes of the call may go when the disk is
	// nearly full.
	Precedence access.Precedence
	// Vouch is what people said of this very call before, nil for nothing.
	Vouch *Vouch
	// Lead are drafts that are written before the first event of the call and in
	// its transaction. A pipeline that is closing writes neither.
	Lead []event.Draft
	// LeadBlobs are what Lead names by digest.
	LeadBlobs [][]byte
	// Hold, unless nil, is asked before a call that policy and people let through is
	// decided, and again before its changes are. It may wait, until there is somebody
	// to whom the result matters; what it waited for is judged anew. An error refuses
	// the call, and gives back the answer that it had.
	Hold func(context.Context) error
	// NoEdit is why the call cannot be told that people changed its arguments, "" when
	// it can.
	NoEdit string
	// Reason is why the caller wants the call, in its own words; "" when it says
	// nothing. It is for policy and for people, and no part of the call.
	Reason string
	// ReasonBy says how this client sends a reason, as the next step of who is told that
	// one is wanted; "" for what docs/reasons.md says.
	ReasonBy string
	// Peer is the client, for executors that pass something on to it.
	Peer tool.Peer
}

// Call takes one submission through all stages and tells observe what
// happens, in order. A denial is an outcome; an error means that the call was
// refused before it was decided, or that it could not be recorded.
//
// A call without an idempotency key ends when ctx does. A call with one goes on
// without its client, which can send the same request again to get the result.
func (p *Pipeline) Call(ctx context.Context, s Submission, observe func(Event)) (Outcome, error) {
	leave, err := p.enter()
	if err != nil {
		return Outcome{}, err
	}
	defer leave()
	if s.IdempotencyKey != "" {
		outcome, err := p.callOnce(ctx, &s, observe)
		return *outcome, err
	}
	outcome, err := p.handle(ctx, &s, nil, observe)
	return *outcome, err
}

// UnderWay counts the calls that have not ended, whatever they wait for.
func (p *Pipeline) UnderWay() int { return p.sessions.UnderWay() }

// Running is a call whose tool runs.
type Running struct {
	ProposalID string
	Tool       string
	Principal  access.Principal
}

// Running lists the calls whose tool runs, the oldest first.
func (p *Pipeline) Running() []Running {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Running
	for c := range p.live {
		if c.running.Load() {
			list = append(list, Running{c.proposal.ID, c.sub.Tool, c.sub.Caller.Principal})
		}
	}
	slices.SortFunc(list, func(a, b Running) int { return strings.Compare(a.ProposalID, b.ProposalID) })
	return list
}

// EndCallers ends the calls whose caller ended says to, whatever they wait for, and
// returns how many there are. Running programs are killed, and nothing that they wrote is
// committed. It does not wait for their ends.
func (p *Pipeline) EndCallers(ended func(access.Caller) bool, why *reason.Error) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, cancel := range p.live {
		if ended(c.sub.Caller) {
			cancel(why)
			n++
		}
	}
	return n
}

// enter counts a call in, unless the pipeline is closing.
func (p *Pipeline) enter() (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil, errStopping()
	}
	p.calls.Add(1)
	return p.calls.Done, nil
}

func errStopping() error { return reason.Errorf(reason.ShuttingDown, "the gateway is stopping") }

// track keeps a call among the live ones until leave is called.
func (p *Pipeline) track(ctx context.Context, c *call) (tracked context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[c] = cancel
	if p.late {
		cancel(errStopping())
	}
	return ctx, func() {
		cancel(nil)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.live, c)
		if c.left != nil {
			close(c.left)
		}
	}
}

// Run lets calls in until ctx ends, then waits for those under way. Those that have
// not ended when late is closed are cancelled, with reason SHUTTING_DOWN; an
// approval that one of them waits for stays pending.
func (p *Pipeline) Run(ctx context.Context, late <-chan struct{}) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	ended := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		select {
		case <-late:
			p.cutOff()
		case <-ended:
		}
	})
	p.calls.Wait()
	close(ended)
	cutting.Wait()
	return nil
}

// cutOff cancels the calls that have not ended.
func (p *Pipeline) cutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = true
	for _, cancel := range p.live {
		cancel(errStopping())
	}
}
