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

// Desk is where people answer.
type Desk interface {
	Resolve(ctx context.Context, ask *approval.Ask, observer func(*approval.Record)) (approval.Answer, error)
	Consume(ctx context.Context, a approval.Answer, extra ...event.Draft) error
	// EndUnused ends a record of a change that is not made, and notes why.
	EndUnused(ctx context.Context, id, why string) error
	Get(ctx context.Context, id string) (approval.Record, error)
}

// Config is what a gate stands on.
type Config struct {
	// Desk is one whose judge is this package's.
	Desk    Desk
	People  People
	Journal Journal
	// SwitchedOff is true where the configuration wants no second person.
	SwitchedOff bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Gate asks about changes. It is safe for concurrent use.
type Gate struct {
	desk        Desk
	people      People
	journal     Journal
	switchedOff bool
	now         func() time.Time
	log         *slog.Logger

	// making lets one change be made at a time, from the last look at it to its end.
	making sync.Mutex

	// running counts the changes of waiting, so that Run can wait for them.
	running sync.WaitGroup

	mu     sync.Mutex
	lately []notice
	// waiting are the changes that wait or are being made, by the digest of the question.
	waiting map[string]*waitingChange
	// stopped is true once Run has ended: no change starts to wait.
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
		desk: c.Desk, people: c.People, journal: c.Journal, switchedOff: c.SwitchedOff, now: c.Now, log: c.Log,
		waiting: map[string]*waitingChange{},
	}
}

// Yes is what people answered. It is good for one change, and until Use.
type Yes struct {
	gate     *Gate
	question Question
	answer   approval.Answer
}

// ApprovalID is the record's, "" for the zero value.
func (y Yes) ApprovalID() string { return y.answer.ApprovalID() }

// By are those who said yes.
func (y Yes) By() []access.Principal {
	var list []access.Principal
	for _, v := range y.answer.Votes() {
		if v.Allow {
			list = append(list, v.User)
		}
	}
	return list
}

// Ask asks people and waits for their answer, as a call does: until somebody
// answers, its time is up, or ctx ends, which withdraws the question. Asked, which
// may be nil, is told of the record once it stands.
//
// Errors are those of the desk, and reason.ApprovalDenied, ApprovalExpired,
// ApprovalCancelled or Cancelled for an answer that is no yes.
func (g *Gate) Ask(ctx context.Context, q Question, asked func(*approval.Record)) (Yes, error) {
	ask, err := q.ask(g.people.Engine.Current().SnapshotDigest())
	if err != nil {
		return Yes{}, err
	}
	answer, err := g.desk.Resolve(ctx, ask, asked)
	if err != nil {
		return Yes{}, err
	}
	if !answer.Allowed() {
		return Yes{}, reason.Errorf(answer.Reason(), "%s", answer.Message()).WithRemedy("%s", remedy(answer)).
			WithField("approval_id", answer.ApprovalID())
	}
	return Yes{gate: g, question: q, answer: answer}, nil
}

// remedy is the next step after an answer that is no yes.
func remedy(a approval.Answer) string {
	switch a.Reason() {
	case reason.ApprovalDenied:
		return "Ask whoever denied it why: `palyra approvals show " + a.ApprovalID() + "`."
	case reason.ApprovalExpired:
		return "Ask somebody who may answer to be ready, then try again."
	default:
		return "Try again if the change is still wanted."
	}
}

// Use uses the yes up, right before the change is made, and journals the extra
// events with that. A second use is reason.ApprovalConflict. It is
// reason.ApprovalRevoked when whoever voted may not any more: votes of somebody who
// was disabled, lowered or got into the requester's hands since do not count.
func (y Yes) Use(ctx context.Context, extra ...event.Draft) error {
	if y.gate == nil {
		return reason.Errorf(reason.PermitRefused, "nobody said yes")
	}
	r, err := y.gate.desk.Get(ctx, y.answer.ApprovalID())
	if err != nil {
		return err
	}
	if ruling := y.gate.people.rule(y.question.Rule, r, y.answer.Votes()); !ruling.Allowed {
		return reason.Errorf(reason.ApprovalRevoked, "whoever approved this may not any more: it takes %s", ruling.Missing).
			WithRemedy("Try again, so that somebody else is asked.")
	}
	return y.gate.desk.Consume(ctx, y.answer, extra...)
}
