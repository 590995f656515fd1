package approval

import (
	"context"
	"time"

	"palyra/internal/core/reason"
)

// Resolve requests an approval for a call and waits for the answer, from any approver and
// surface. It joins an identical pending ask, and may use an identical ask that was allowed and
// not consumed. It answers an ask that was recently denied or expired from memory.
//
// The observer, which may be nil, is called on this goroutine with the record, once when it
// exists and again after each change. It must not change the record.
//
// When ctx ends, the answer is ByCancel with reason.Cancelled, and the last waiter to leave
// cancels the record. If the cause of ctx is reason.ShuttingDown, or Run has ended, the record
// stays pending instead, and the error is reason.ShuttingDown.
//
// Errors are reason.ApprovalLimit, GatewayFrozen, BindingMismatch, InvalidInput, or errors of
// the store. None of them allows the call.
func (d *Desk) Resolve(ctx context.Context, ask *Ask, observer func(*Record)) (Answer, error) {
	if observer == nil {
		observer = func(*Record) {}
	}
	own := *ask // with its defaults
	a, err := d.resolve(ctx, &own, observer)
	if err != nil {
		return Answer{}, err
	}
	return *a, nil
}

// resolve and the functions below it pass asks, records and answers by pointer, to keep their
// stack frames small: thousands of goroutines may wait here at once.
func (d *Desk) resolve(ctx context.Context, ask *Ask, observer func(*Record)) (*Answer, error) {
	if err := ask.check(d.limits); err != nil {
		return nil, err
	}
	for {
		if a, err := d.attempt(ctx, ask, observer); a != nil || err != nil {
			return a, err
		}
		if a, err := d.bySibling(ctx, ask); a != nil || err != nil {
			return a, err
		}
	}
}

// bySibling finds a grant that was created while the call waited for a record that then served
// an identical call. It returns nil if no grant covers the call.
func (d *Desk) bySibling(ctx context.Context, ask *Ask) (*Answer, error) {
	if ask.Covers == nil {
		return nil, nil
	}
	grants, err := d.Grants(ctx, ask.Query())
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		covered, err := ask.Covers(ctx, g)
		if err != nil {
			return nil, err
		}
		if covered {
			a, err := d.GrantAnswer(ctx, g.ID, *ask)
			return &a, err
		}
	}
	return nil, nil
}

// entrance is the way in which an ask was matched to a record.
type entrance int

const (
	remembered entrance = iota // answered from memory
	claimed                    // an allowed record was available
	created                    // a new record
	joined                     // an identical record is pending
)

// attempt makes one pass through the desk. The answer is nil if the call must ask again,
// because its record served an identical call.
func (d *Desk) attempt(ctx context.Context, ask *Ask, observer func(*Record)) (*Answer, error) {
	e, w, rec, how, err := d.enter(ask)
	if err != nil {
		return nil, err
	}
	switch how {
	case remembered:
		a := answerOf(rec)
		until := d.cool.until(rec).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
		a.message += " (an identical request was answered recently; that answer holds until " + until + ")"
		a.remedy = a.Remedy() + " The same call can be requested again after " + until + "."
		return a, nil
	case claimed:
		observer(rec)
		return answerOf(rec), nil
	case created:
		err = d.create(ctx, e, ask)
	case joined:
		err = d.join(ctx, e, ask)
	}
	if err != nil {
		d.detach(e, w)
		return nil, err
	}
	return d.wait(ctx, e, w, observer)
}

// enter finds or creates the entry that serves the ask.
func (d *Desk) enter(ask *Ask) (*entry, *waiter, *Record, entrance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	key := d.key(*ask)
	if err := d.openLocked(ask); err != nil {
		return nil, nil, nil, 0, err
	}
	if e := d.usableLocked(key); e != nil {
		e.claimedUntil = now.Add(d.limits.Claim)
		rec := e.rec
		return e, nil, &rec, claimed, nil
	}
	if e := d.joinableLocked(key); e != nil {
		w := newWaiter()
		e.waiters = append(e.waiters, w)
		if e.rec.State == Pending {
			w.show(d.displayedLocked(e))
		}
		return e, w, nil, joined, nil
	}
	if rec, ok := d.cool.recall(ask, now); ok {
		return nil, nil, &rec, remembered, nil
	}
	e, err := d.reserveLocked(ask, key)
	if err != nil {
		return nil, nil, nil, 0, err
	}
	return e, e.waiters[0], nil, created, nil
}

// openLocked returns nil if the desk accepts asks.
func (d *Desk) openLocked(ask *Ask) error {
	if d.frozen != nil && heldByFreeze(ask.SubjectType) {
		return frozenError(d.frozen)
	}
	select {
	case <-d.stopping:
		return errStopping()
	default:
		return nil
	}
}

func errStopping() error {
	return reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the approval stays pending")
}

// usableLocked finds an allowed record that no other call holds.
func (d *Desk) usableLocked(key callKey) *entry {
	now := d.now()
	for _, e := range d.byCall[key] {
		if e.rec.State == Allowed && !now.Before(e.claimedUntil) && now.Before(e.rec.UseBy) {
			return e
		}
	}
	return nil
}

func (d *Desk) joinableLocked(key callKey) *entry {
	now := d.now()
	for _, e := range d.byCall[key] {
		if (e.rec.State == Pending || e.rec.State == "") && !e.leaving && (e.rec.ExpiresAt.IsZero() || now.Before(e.rec.ExpiresAt)) {
			return e
		}
	}
	return nil
}

// reserveLocked creates the entry of a record that is not stored yet, so that an identical ask
// joins it instead of creating another record.
func (d *Desk) reserveLocked(ask *Ask, key callKey) (*entry, error) {
	now := d.now()
	id, err := newID(now)
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, rec: Record{ID: id}, key: key, resolved: ask.Resolved, ready: make(chan struct{}), delivered: make(chan struct{}), waiters: []*waiter{newWaiter()}, counted: true}
	e.run = runOf(Record{RequestedBy: ask.Proposal.Caller.Principal, Run: ask.Proposal.Run, Session: ask.Proposal.Session})
	if err := d.quota.take(e.run, now); err != nil {
		return nil, err
	}
	d.addLocked(e)
	return e, nil
}

// create stores the record of a reserved entry.
func (d *Desk) create(ctx context.Context, e *entry, ask *Ask) error {
	defer close(e.ready)
	rec, err := d.compose(ctx, e.id, ask)
	if err == nil {
		err = d.update(ctx, func(tx Tx) error {
			if err := thawedFor(tx, rec.SubjectType); err != nil {
				return err
			}
			rec, err = transition(tx, step{
				id: rec.ID, to: Pending, at: rec.CreatedAt, actor: rec.RequestedBy.String(),
				change: func(r *Record) { *r = rec }, events: askedEvents,
			})
			return err
		})
	}
	if err != nil {
		d.abort(e, err)
		return err
	}
	d.settle(rec)
	return nil
}

// compose creates the record with the desk's additions to the prompt.
func (d *Desk) compose(ctx context.Context, id string, ask *Ask) (Record, error) {
	rec, err := ask.record(id, d.now())
	if err != nil {
		return Record{}, err
	}
	if err := d.describe(ctx, &rec); err != nil {
		return Record{}, err
	}
	return rec, nil
}

// describe adds the desk's data to the prompt of a record.
func (d *Desk) describe(ctx context.Context, rec *Record) error {
	rec.Prompt.Scopes, rec.Prompt.ExactOnly = offers(*rec, d.limits), rec.ExactOnly
	if !rec.AboutSession() && !rec.AboutGateway() {
		if err := d.addLately(ctx, rec); err != nil {
			return err
		}
	}
	if rec.AboutCommit() || rec.AboutSecret() || rec.AboutSession() || rec.AboutGateway() {
		return nil // the difference is in the diff, or nothing can be compared
	}
	last, found, err := d.store.LastAllowed(ctx, rec.RequestedBy, rec.Binding.Tool)
	if err != nil {
		return err
	}
	rec.Prompt.LastAllowed, rec.Prompt.Differs = found, nil
	if found {
		rec.Prompt.Differs, err = last.Diff(rec.Binding)
	}
	return err
}
