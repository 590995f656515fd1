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

	"palyra/internal/call/session"
	"palyra/internal/core/reason"
)

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
