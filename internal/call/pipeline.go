// Package call runs the stages of a call in their order: proposal, policy, approval, decision,
// dispatch, executor, attestation, journal. Every interface calls Pipeline.Call; no other code
// path runs a tool.
//
// Each stage gets the result of the stage before it and never calls back into an earlier stage.
// A stage that fails ends the call. A tool runs only after a decision, and a tool with an
// effect runs only after its decision is durable. A result is sent only after its attestation
// is durable.
package call

import (
	"context"
	"sync"

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

// Evaluator returns the policy verdict.
type Evaluator interface {
	Evaluate(ctx context.Context, r policy.Request, grants []policy.Grant) (policy.Verdict, error)
	Current() *policy.Set
}

// Approver requests approvals, and consumes their answers.
type Approver interface {
	Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error)
	Consume(ctx context.Context, a approval.Answer, extra ...event.Draft) error
	// Release returns an answer that its call will not use.
	Release(a approval.Answer)
	// Recheck is called immediately before the call starts, so that a revocation or a freeze
	// takes precedence over an existing decision.
	Recheck(ctx context.Context, a approval.Answer) error
}

// Grants finds standing grants, and returns their answers.
type Grants interface {
	Find(ctx context.Context, q approval.GrantQuery) ([]approval.Grant, error)
	Answer(ctx context.Context, grantID string, ask approval.Ask) (approval.Answer, error)
}

// Editor edits calls that wait for an approval.
type Editor interface {
	// MayEdit checks whether the caller may edit the call of a record in the displayed version.
	// Edit replaces the call.
	MayEdit(ctx context.Context, caller access.Caller, id string, version int64, digest string) (approval.Record, error)
	Edit(ctx context.Context, caller access.Caller, id string, a approval.Amendment) (approval.Record, error)
}

// Dispatcher checks inputs, plans calls and runs decided calls.
type Dispatcher interface {
	Check(name string, input []byte) (tool.Descriptor, []byte, error)
	// Digest returns the digest of a tool's definition.
	Digest(name string) string
	Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error)
	// Resolved returns the normalized effect of a planned call, independent of the form of its
	// arguments.
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

// Ledger is the journal together with the rows that are committed with it.
type Ledger interface {
	// Record makes an entry durable, completely or not at all. It returns the sequence number
	// of the last event.
	Record(ctx context.Context, e Entry) (int64, error)
	// Ready checks whether results can be stored. It returns reason.VaultLocked while the
	// encryption key is locked.
	Ready(ctx context.Context) error
	// Events returns a page of the events that match the filter. Blob returns the blob of a
	// digest.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
	Blob(ctx context.Context, digest string) ([]byte, error)
	// Head returns the number of durable events and the hash of the newest one, from memory.
	Head() (size int64, hash [32]byte)
	PastCalls
	PastSessions
}

// Pipeline runs calls through the stages.
//
// Every interface MUST make its calls by Call. No other code may create a permit, write a
// decision, or return a result of a tool. A configuration without one of the stages MUST NOT be
// accepted.
type Pipeline struct {
	*services
	*DryRuns
	*History
	keyed *keyedCalls
}

// services are the parts that the stages of all calls use.
type services struct {
	Config
	sessions *session.Book
	waiting  *waitingCalls
	// control switches protections off, in tests that show their purpose.
	control control
}

// Call runs one submission through all stages and passes the events to observe, in order. A
// denial is an outcome; an error means that the call was refused before it was decided, or that
// it could not be recorded.
//
// A call without an idempotency key ends when ctx does. A call with a key continues without its
// client, which can repeat the request to get the result.
func (p *Pipeline) Call(ctx context.Context, s Submission, observe func(Event)) (Outcome, error) {
	leave, err := p.underWay.enter()
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

// callsUnderWay are the calls that have not ended.
type callsUnderWay struct {
	calls sync.WaitGroup

	mu      sync.Mutex
	closing bool
	// live maps the calls to their cancel functions. late is true once the shutdown grace period
	// has expired.
	live map[*call]context.CancelCauseFunc
	late bool
}

// enter counts a call, unless the pipeline is closing.
func (u *callsUnderWay) enter() (func(), error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return nil, errStopping()
	}
	u.calls.Add(1)
	return u.calls.Done, nil
}

func errStopping() error { return reason.Errorf(reason.ShuttingDown, "the gateway is stopping") }

// track adds a call to the live calls until leave is called.
func (u *callsUnderWay) track(ctx context.Context, c *call) (tracked context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.live[c] = cancel
	if u.late {
		cancel(errStopping())
	}
	return ctx, func() {
		cancel(nil)
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.live, c)
		if c.left != nil {
			close(c.left)
		}
	}
}
