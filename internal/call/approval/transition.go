package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// State is the state of a record.
type State string

// The states. Pending becomes allowed, denied, expired or cancelled; allowed becomes consumed,
// revoked or expired. The others are terminal and never change.
const (
	Pending   State = "pending"
	Allowed   State = "allowed"
	Denied    State = "denied"
	Expired   State = "expired"
	Cancelled State = "cancelled"
	Consumed  State = "consumed"
	Revoked   State = "revoked"
)

// States lists all states.
var States = []State{Pending, Allowed, Denied, Expired, Cancelled, Consumed, Revoked}

// Terminal reports whether s never changes again.
func (s State) Terminal() bool {
	return slices.Contains(States, s) && s != Pending && s != Allowed
}

// deadline returns the time at which r expires in its present state; zero for a terminal one.
func (r Record) deadline() time.Time {
	switch r.State {
	case Pending:
		return r.ExpiresAt
	case Allowed:
		return r.UseBy
	default:
		return time.Time{}
	}
}

// legal lists the allowed transitions. A vote that does not settle a record leaves it pending
// with a new version.
var legal = map[State][]State{
	"":      {Pending},
	Pending: {Pending, Allowed, Denied, Expired, Cancelled},
	Allowed: {Consumed, Revoked, Expired},
}

// ErrNotFound means that a Store has no record or grant with the id.
var ErrNotFound = errors.New("approval: not found")

// errLate means that a transition was tried after the record's deadline.
var errLate = errors.New("approval: its time is up")

// step is one transition: the expected state, the new one, and the events journaled with it.
type step struct {
	id string
	// from and version are compared; "" and 0 create a record.
	from    State
	version int64
	to      State
	at      time.Time
	// actor and note are the actor of the transition and its reason.
	actor, note string
	// rewrite also stores prompt, binding and request.
	rewrite bool
	// change sets further fields; it may be nil.
	change func(*Record)
	// events drafts the journal events from the updated record.
	events func(Record) ([]event.Draft, error)
}

// transition is the only function that creates and changes records. It compares state and
// version inside the transaction and writes the record together with its events. If another
// change came first, the error is reason.ApprovalConflict and names its actor. errLate means
// that the record's deadline has passed, so that it can only expire.
func transition(tx Tx, s step) (Record, error) {
	rec, err := current(tx, s)
	if err != nil {
		return rec, err
	}
	if !slices.Contains(legal[rec.State], s.to) {
		return rec, fmt.Errorf("approval %s: no transition leads from %q to %q", s.id, rec.State, s.to)
	}
	if late(rec, s) {
		return rec, errLate
	}
	apply(&rec, s)
	drafts, err := s.events(rec)
	if err != nil {
		return rec, err
	}
	switch {
	case s.from == "":
		err = tx.InsertRecord(&rec)
	case s.rewrite:
		err = tx.RewriteRecord(&rec, s.from, s.version)
	default:
		err = tx.ReplaceRecord(&rec, s.from, s.version)
	}
	if err != nil {
		return rec, fmt.Errorf("storing approval %s: %w", s.id, err)
	}
	tx.Emit(drafts...)
	return rec, nil
}

// current returns the stored record after comparing it.
func current(tx Tx, s step) (Record, error) {
	if s.from == "" {
		return Record{ID: s.id}, nil
	}
	rec, err := tx.Record(s.id)
	if err != nil {
		return rec, notFound(err, "approval", s.id)
	}
	if rec.State != s.from || rec.Version != s.version {
		return rec, conflict(rec)
	}
	return rec, nil
}

// late reports whether the record's deadline has passed and the step is not the expiry itself:
// a late vote, cancel or use fails even before the timer has fired.
func late(rec Record, s step) bool {
	deadline := rec.deadline()
	return s.to != Expired && s.to != Revoked && !deadline.IsZero() && !s.at.Before(deadline)
}

func apply(rec *Record, s step) {
	if s.change != nil {
		s.change(rec)
	}
	rec.State, rec.ChangedBy, rec.Note = s.to, s.actor, s.note
	rec.Version++
	if s.to == Allowed || s.to == Denied {
		rec.AnsweredAt = s.at
	}
	if s.to.Terminal() {
		rec.ClosedAt = s.at
		rec.Request = nil // it is not judged again, and it may hold secrets
	}
	if s.to != Pending {
		rec.Missing, rec.Needs = "", nil
	}
}

// conflict is the error of a late step, with the record's state and the actor that set it.
func conflict(rec Record) *reason.Error {
	at := rec.ClosedAt
	if at.IsZero() {
		at = rec.AnsweredAt
	}
	e := reason.Errorf(reason.ApprovalConflict, "approval %s changed in between: it has new votes", rec.ID)
	if rec.State != Pending {
		e = reason.Errorf(reason.ApprovalConflict, "approval %s is already %s, by %s at %s",
			rec.ID, rec.State, rec.ChangedBy, at.Format(time.RFC3339))
	}
	return e.WithRemedy("Inspect it with `palyra approvals show %s`.", rec.ID).
		WithField("state", string(rec.State)).WithField("changed_by", rec.ChangedBy).
		WithField("version", fmt.Sprint(rec.Version))
}

func notFound(err error, what, id string) error {
	if errors.Is(err, ErrNotFound) {
		return reason.Errorf(reason.NotFound, "%s %s does not exist", what, text.Visible(id))
	}
	return fmt.Errorf("reading %s %s: %w", what, text.Visible(id), err)
}

// changeGrant is the only function that changes grants. It reads the grant inside the transaction,
// rejects a revoked or ended one, and writes it with its events.
func changeGrant(tx Tx, id string, change func(*Grant), events func(Grant) ([]event.Draft, error)) (Grant, error) {
	g, err := tx.Grant(id)
	if err != nil {
		return g, notFound(err, "grant", id)
	}
	if !g.Open() {
		return g, grantClosed(g)
	}
	version := g.Version
	change(&g)
	g.Version++
	drafts, err := events(g)
	if err != nil {
		return g, err
	}
	if err := tx.ReplaceGrant(g, version); err != nil {
		return g, fmt.Errorf("storing grant %s: %w", id, err)
	}
	tx.Emit(drafts...)
	return g, nil
}

// grantClosed returns the reason why a grant is not valid.
func grantClosed(g Grant) *reason.Error {
	if !g.RevokedAt.IsZero() {
		return reason.Errorf(reason.ApprovalRevoked, "grant %s was revoked by %s at %s", g.ID, g.RevokedBy, g.RevokedAt.Format(time.RFC3339)).
			WithField("changed_by", g.RevokedBy)
	}
	at, note := g.EndedAt, g.EndNote
	if at.IsZero() && g.usedUp() {
		return reason.Errorf(reason.ApprovalExpired, "grant %s is used up: it was for %d calls", g.ID, g.MostUses).
			WithRemedy("Repeat the call to request a new approval.")
	}
	if at.IsZero() {
		at, note = g.ExpiresAt, "its time was up"
	}
	return reason.Errorf(reason.ApprovalExpired, "grant %s ended at %s: %s", g.ID, at.Format(time.RFC3339), note)
}

// update runs one unit to its end independently of the caller's context: its outcome is needed.
func update(ctx context.Context, store Store, fn func(Tx) error) error {
	return store.Update(context.WithoutCancel(ctx), fn)
}

func newID(at time.Time) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// thawed returns an error if the gateway is frozen.
func (f *Freezer) thawed() error { return refuseFrozen(f.state.Load()) }

// thawedFor is thawed, unless a freeze does not stop the subject type.
func thawedFor(tx Tx, t SubjectType) error {
	if !heldByFreeze(t) {
		return nil
	}
	return thawed(tx)
}

// thawed returns an error if the gateway is frozen in the view of the unit.
func thawed(tx Tx) error {
	state, err := tx.Freeze()
	if err != nil {
		return err
	}
	return refuseFrozen(state)
}

func refuseFrozen(state *FreezeState) error {
	if state == nil {
		return nil
	}
	content := fmt.Sprintf("%s froze the gateway at %s", state.By, state.At.Format(time.RFC3339))
	if state.Reason != "" {
		content += ": " + text.Visible(state.Reason)
	}
	return reason.Errorf(reason.GatewayFrozen, "%s", content)
}
