package approval

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Resolve asks people about a call and waits for the answer, whoever gives it
// and from wherever. An identical ask that is pending already is joined, one
// that was allowed and not consumed may be used, one that was denied or
// expired a moment ago is answered from memory.
//
// The observer, which may be nil, is called on this goroutine with the record, once
// when there is one and again after each change. It must not change the record.
//
// When ctx ends, the answer is ByCancel with reason.Cancelled, and the last waiter
// to leave cancels the record. But when the cause of ctx is reason.ShuttingDown, or
// Run has ended, the record stays pending and the error is reason.ShuttingDown.
//
// Errors are reason.ApprovalLimit, GatewayFrozen, BindingMismatch,
// InvalidInput, or those of the store. None of them allows anything.
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

// resolve and the functions below it pass asks, records and answers by pointer, to
// keep their stack frames small: thousands of goroutines may wait here at once.
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

// bySibling looks for a grant that was minted while the call waited for a
// record which then served an identical call. It is nil when there is none.
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

// entrance is how an ask came in.
type entrance int

const (
	remembered entrance = iota // answered from memory
	claimed                    // an allowed record was there to be used
	created                    // a new record
	joined                     // an identical record is pending
)

// attempt goes once through the desk. The answer is nil when the call has to
// ask again, because its record served an identical call.
func (d *Desk) attempt(ctx context.Context, ask *Ask, observer func(*Record)) (*Answer, error) {
	e, w, rec, how, err := d.enter(ask)
	if err != nil {
		return nil, err
	}
	switch how {
	case remembered:
		a := answerOf(rec)
		until := d.cool.until(rec).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
		a.message += " (the same was answered a moment ago; that holds until " + until + ")"
		a.remedy = a.Remedy() + " The same call is asked about again after " + until + "."
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

// enter finds or makes the entry that serves the ask.
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
			w.show(d.shownLocked(e))
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

// openLocked returns nil when the desk takes asks.
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

// reserveLocked makes the entry of a record that is not stored yet, so that an
// identical ask joins it rather than making another.
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

// compose makes the record with what the desk adds to the prompt.
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

// describe adds to the prompt of a record what the desk knows.
func (d *Desk) describe(ctx context.Context, rec *Record) error {
	rec.Prompt.Scopes, rec.Prompt.ExactOnly = offers(*rec, d.limits), rec.ExactOnly
	if !rec.AboutSession() && !rec.AboutGateway() {
		if err := d.addLately(ctx, rec); err != nil {
			return err
		}
	}
	if rec.AboutCommit() || rec.AboutSecret() || rec.AboutSession() || rec.AboutGateway() {
		return nil // what differs is the diff, or there is nothing to compare
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

// abort takes back an entry whose record could not be stored, and tells those
// who joined it meanwhile.
func (d *Desk) abort(e *entry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range e.waiters {
		w.finish(nil, false, err)
	}
	e.waiters = nil
	d.removeLocked(e)
}

// join journals that one more call waits on the record.
func (d *Desk) join(ctx context.Context, e *entry, ask *Ask) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return nil // wait sees the same
	}
	return d.update(ctx, func(tx Tx) error {
		rec, err := tx.Record(e.id)
		if errors.Is(err, ErrNotFound) || (err == nil && rec.State != Pending) {
			return nil // settled meanwhile, or never stored: wait knows
		}
		if err != nil {
			return err
		}
		// Of the run that joins, which need not be the one that asked first.
		d, err := draft(event.Joined, ask.Proposal.Session, ask.Proposal.Run, ask.Proposal.Caller.Principal.String(), rec.ID,
			JoinedPayload{ApprovalID: rec.ID, ProposalID: ask.Proposal.ID})
		if err != nil {
			return err
		}
		tx.Emit(d)
		return nil
	})
}

// wait returns when the record is settled for this call or ctx ends. The answer
// is nil when the record was allowed and served an identical call.
func (d *Desk) wait(ctx context.Context, e *entry, w *waiter, observer func(*Record)) (*Answer, error) {
	defer e.markDelivered()
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return d.leave(ctx, e, w)
		case <-d.stopping:
			d.detach(e, w)
			return nil, errStopping()
		}
		rec, fresh, done, served, err := d.look(w)
		if err != nil {
			return nil, err
		}
		if fresh {
			observer(rec)
			e.markDelivered()
		}
		switch {
		case done && rec.State == Allowed && !served:
			return nil, nil
		case done:
			return answerOf(rec), nil
		}
	}
}

func (d *Desk) look(w *waiter) (rec *Record, fresh, done, served bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh = w.fresh
	w.fresh = false
	return w.rec, fresh, w.done, w.served, w.err
}

// detach takes a waiter away without any further consequence.
func (d *Desk) detach(e *entry, w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detachLocked(e, w)
}

func (d *Desk) detachLocked(e *entry, w *waiter) {
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
}

// leave ends the wait of a call whose context ended.
func (d *Desk) leave(ctx context.Context, e *entry, w *waiter) (*Answer, error) {
	rec, last := d.depart(ctx, e, w)
	if reason.Of(context.Cause(ctx)) == reason.ShuttingDown {
		return nil, errStopping()
	}
	if last {
		rec = d.withdraw(ctx, rec, left(ctx))
		d.mu.Lock()
		e.leaving = false // matters only when the cancel could not be stored
		d.mu.Unlock()
	}
	return gone(&rec, left(ctx)), nil
}

// left says why a call stopped waiting: somebody's order to end it, or its caller
// went away.
func left(ctx context.Context) string {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && order.Code == reason.Cancelled {
		return order.Message
	}
	return "the caller went away while the call waited for approval"
}

// depart takes the waiter away and reports whether the record has to be
// cancelled because it was the last.
func (d *Desk) depart(ctx context.Context, e *entry, w *waiter) (Record, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.served {
		e.claimedUntil = d.now() // a repeated identical call may have it
	}
	d.detachLocked(e, w)
	last := !w.done && len(e.waiters) == 0 && e.rec.State == Pending &&
		reason.Of(context.Cause(ctx)) != reason.ShuttingDown
	e.leaving = e.leaving || last
	return e.rec, last
}

// withdraw cancels a record that nobody waits for any more, unless somebody
// answers it first. It returns the record as it is afterwards.
func (d *Desk) withdraw(ctx context.Context, rec Record, why string) Record {
	ctx = context.WithoutCancel(ctx)
	for {
		after, err := d.cancel(ctx, rec, rec.RequestedBy.String(), why)
		if err == nil {
			return after
		}
		if reason.Of(err) != reason.ApprovalConflict {
			d.log.ErrorContext(ctx, "cancelling an approval", slog.String("approval", rec.ID), slog.Any("error", err))
			return rec
		}
		if rec, err = d.store.Record(ctx, rec.ID); err != nil || rec.State != Pending {
			return rec
		}
	}
}
