package dualcontrol

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Requests asks the questions, and uses the answers.
type Requests interface {
	Resolve(ctx context.Context, ask *approval.Ask, observer func(*approval.Record)) (approval.Answer, error)
	Consume(ctx context.Context, a approval.Answer, extra ...event.Draft) error
}

// Records stores the questions.
type Records interface {
	// EndUnused ends the record of a change that is not made, with the reason.
	EndUnused(ctx context.Context, id, why string) error
	Get(ctx context.Context, id string) (approval.Record, error)
}

// Config is the configuration of a gate.
type Config struct {
	// Requests and Records are of a desk that uses the Judge of this package.
	Requests Requests
	Records  Records
	People   People
	Journal  Journal
	// SwitchedOff is true if the configuration disables dual control.
	SwitchedOff bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Gate requests approvals of changes, and makes the approved changes. It is safe for concurrent
// use.
type Gate struct {
	requests    Requests
	records     Records
	people      People
	journal     Journal
	switchedOff bool
	now         func() time.Time
	log         *slog.Logger

	// making serializes changes, from the last check of a plan until the change is made.
	making sync.Mutex

	// running counts the entries of waiting, so that Run can wait for them.
	running sync.WaitGroup

	mu      sync.Mutex
	notices []notice
	// waiting are the changes that wait or are being made, by the digest of the question.
	waiting map[string]*waitingChange
	// stopped is true once Run has ended: no further change starts to wait.
	stopped bool
}

// New returns a gate.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		requests: c.Requests, records: c.Records, people: c.People, journal: c.Journal, switchedOff: c.SwitchedOff, now: c.Now, log: c.Log,
		waiting: map[string]*waitingChange{},
	}
}

// Consent is an approval by a person. It permits one change and is valid until Use.
type Consent struct {
	gate     *Gate
	question Question
	answer   approval.Answer
}

// ApprovalID returns the id of the record, "" for the zero value.
func (y Consent) ApprovalID() string { return y.answer.ApprovalID() }

// By returns the people who approved.
func (y Consent) By() []access.Principal {
	var list []access.Principal
	for _, v := range y.answer.Votes() {
		if v.Allow {
			list = append(list, v.User)
		}
	}
	return list
}

// Ask requests an approval and waits for the answer, like a call. It waits until a person
// answers, the time limit passes, or ctx ends. The end of ctx withdraws the question. If asked
// is not nil, it is called with the record once the record is stored.
//
// Ask returns the errors of the desk. If the answer is not an approval, it returns
// reason.ApprovalDenied, ApprovalExpired, ApprovalCancelled or Cancelled.
func (g *Gate) Ask(ctx context.Context, q Question, asked func(*approval.Record)) (Consent, error) {
	ask, err := q.ask(g.people.Engine.Current().SnapshotDigest())
	if err != nil {
		return Consent{}, err
	}
	answer, err := g.requests.Resolve(ctx, ask, asked)
	if err != nil {
		return Consent{}, err
	}
	if !answer.Allowed() {
		return Consent{}, reason.Errorf(answer.Reason(), "%s", answer.Message()).WithRemedy("%s", remedy(answer)).
			WithField("approval_id", answer.ApprovalID())
	}
	return Consent{gate: g, question: q, answer: answer}, nil
}

// remedy returns the next step after an answer that is not an approval.
func remedy(a approval.Answer) string {
	switch a.Reason() {
	case reason.ApprovalDenied:
		return "Ask the person who denied it for the reason: `palyra approvals show " + a.ApprovalID() + "`."
	case reason.ApprovalExpired:
		return "Make sure that a person who may answer is available, then try again."
	default:
		return "Try again if the change is still wanted."
	}
}

// Use consumes the approval right before the change is made, and journals the extra events in
// the same step. A second use returns reason.ApprovalConflict. Use returns
// reason.ApprovalRevoked if a voter is no longer eligible. This applies to a member who has
// since been disabled, has lost the role, or has come under the control of the requester.
func (y Consent) Use(ctx context.Context, extra ...event.Draft) error {
	if y.gate == nil {
		return reason.Errorf(reason.PermitRefused, "the change was not approved")
	}
	r, err := y.gate.records.Get(ctx, y.answer.ApprovalID())
	if err != nil {
		return err
	}
	if ruling := y.gate.people.rule(y.question.Rule, r, y.answer.Votes()); !ruling.Allowed {
		return reason.Errorf(reason.ApprovalRevoked, "the approval is no longer valid, because its voter is no longer eligible: it requires %s", ruling.Missing).
			WithRemedy("Try again, so that another person is asked.")
	}
	return y.gate.requests.Consume(ctx, y.answer, extra...)
}
