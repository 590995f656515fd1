package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
)

// Records moves the stored records through their states, and keeps the open requests current.
// It also lists, counts and withdraws records. It is safe for concurrent use.
//
// The store is authoritative: every decision about a record MUST be made inside a unit of the
// store's writer, with its events.
type Records struct {
	store Store
	judge Judge
	open  openRequests
	feed  *feed
	now   func() time.Time
	// stopping is closed when the desk stops.
	stopping <-chan struct{}
}

// settle passes a record that has become durable to waiting calls and to watchers.
func (r *Records) settle(rec Record) {
	r.open.settle(rec)
	r.feed.announce()
}

// move makes one transition in its own unit.
func (r *Records) move(ctx context.Context, s step) (Record, error) {
	var after Record
	err := update(ctx, r.store, func(tx Tx) error {
		var err error
		s.at = r.now()
		after, err = transition(tx, s)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	r.settle(after)
	return after, nil
}

func (r *Records) cancel(ctx context.Context, rec Record, by, why string) (Record, error) {
	return r.move(ctx, step{
		id: rec.ID, from: Pending, version: rec.Version, to: Cancelled,
		actor: by, note: why, events: stateEvents(event.Cancelled, Pending),
	})
}

// expireNow expires a record whose deadline has passed and returns a conflict.
func (r *Records) expireNow(ctx context.Context, id string) error {
	if err := r.expire(ctx, []string{id}); err != nil {
		return err
	}
	rec, err := r.store.Record(ctx, id)
	if err != nil {
		return notFound(err, "approval", id)
	}
	return conflict(rec)
}

// expire expires the overdue records in one unit, without those that were settled meanwhile.
func (r *Records) expire(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	var expired []Record
	err := update(ctx, r.store, func(tx Tx) error {
		expired = expired[:0]
		for _, id := range ids {
			rec, err := expireIn(tx, id, r.now())
			if err != nil {
				return err
			}
			if rec.State == Expired {
				expired = append(expired, rec)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, rec := range expired {
		r.settle(rec)
	}
	return nil
}

// expireIn expires a record in a unit if its deadline has passed; otherwise it is empty.
func expireIn(tx Tx, id string, now time.Time) (Record, error) {
	rec, err := tx.Record(id)
	if errors.Is(err, ErrNotFound) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	deadline := rec.deadline()
	if deadline.IsZero() || now.Before(deadline) {
		return Record{}, nil
	}
	note := "not answered in time"
	if rec.State == Allowed {
		note = "not used in time"
	}
	s := expiry(rec, note)
	s.at = now
	return transition(tx, s)
}

// expiry returns the step that expires a record in its present state.
func expiry(rec Record, note string) step {
	return step{
		id: rec.ID, from: rec.State, version: rec.Version, to: Expired,
		actor: daemon, note: note, events: stateEvents(event.Expired, rec.State),
	}
}

// feed wakes the watchers of records.
type feed struct {
	mu sync.Mutex
	// changed is closed and replaced at every change of a record.
	changed chan struct{}
}

func (f *feed) announce() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// daemon is the actor of transitions without a requester, such as expiry.
const daemon = "service:palyrad"

func draft(code event.Code, session, run, actor, subject string, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, fmt.Errorf("creating event %s: %w", code, err)
	}
	return event.Draft{Code: code, Session: session, Run: run, Actor: actor, Subject: subject, Payload: text}, nil
}

func recordDraft(code event.Code, r Record, actor string, payload any) (event.Draft, error) {
	return draft(code, r.Session, r.Run, actor, r.ID, payload)
}

// askedEvents drafts the event of a new record.
func askedEvents(r Record) ([]event.Draft, error) {
	digest, err := canonical.DigestOf(r.Prompt)
	if err != nil {
		return nil, err
	}
	d, err := recordDraft(event.Asked, r, r.RequestedBy.String(), AskedPayload{
		ApprovalID: r.ID, ProposalID: r.ProposalID, CallDigest: r.CallDigest, SnapshotDigest: r.SnapshotDigest,
		SubjectType: r.SubjectType, SubjectID: r.SubjectID, Tool: r.Binding.Tool,
		RequestedBy: r.RequestedBy, OnBehalfOf: r.OnBehalfOf, Severity: r.Severity,
		Summary: r.Prompt.Summary, RequesterReason: r.Prompt.RequesterReason, PromptDigest: digest, ExpiresAt: r.ExpiresAt,
	})
	return []event.Draft{d}, err
}

// stateEvents drafts the event of a transition that only changes the state.
func stateEvents(code event.Code, was State) func(Record) ([]event.Draft, error) {
	return func(r Record) ([]event.Draft, error) {
		d, err := recordDraft(code, r, r.ChangedBy, StatePayload{
			ApprovalID: r.ID, CallDigest: r.CallDigest, State: r.State, Was: was,
			Version: r.Version, By: r.ChangedBy, Note: r.Note, GrantID: r.GrantID,
		})
		return []event.Draft{d}, err
	}
}

func grantDraft(code event.Code, g Grant, actor string, payload any) (event.Draft, error) {
	return draft(code, g.Session, g.Run, actor, g.ID, payload)
}

func grantEvents(code event.Code, actor string, payload func(Grant) any) func(Grant) ([]event.Draft, error) {
	return func(g Grant) ([]event.Draft, error) {
		d, err := grantDraft(code, g, actor, payload(g))
		return []event.Draft{d}, err
	}
}
