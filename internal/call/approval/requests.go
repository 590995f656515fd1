package approval

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Requests requests approvals for calls, and uses the answers. It is safe for concurrent use.
type Requests struct {
	store   Store
	records *Records
	open    waiters
	grants  *Grants
	freezer *Freezer
	limits  Limits
	log     *slog.Logger
	// stopping is closed when the desk stops.
	stopping <-chan struct{}
}

// Resolve requests an approval for a call and waits for the answer, from any approver and
// surface. It joins an identical pending ask, and may use an identical ask that was allowed and
// not consumed. It answers an ask that was recently denied or expired from memory.
//
// The observer, which may be nil, is called on this goroutine with the record, once when it
// exists and again after each change. It must not change the record.
//
// When ctx ends, the answer is ByCancel with reason.Cancelled, and the last waiter to leave
// cancels the record. If the cause of ctx is reason.ShuttingDown, or Desk.Run has ended, the
// record stays pending instead, and the error is reason.ShuttingDown.
//
// Errors are reason.ApprovalLimit, GatewayFrozen, BindingMismatch, InvalidInput, or errors of
// the store. None of them allows the call.
func (q *Requests) Resolve(ctx context.Context, ask *Ask, observer func(*Record)) (Answer, error) {
	if observer == nil {
		observer = func(*Record) {}
	}
	own := *ask // with its defaults
	a, err := q.resolve(ctx, &own, observer)
	if err != nil {
		return Answer{}, err
	}
	return *a, nil
}

// resolve and the functions below it pass asks, records and answers by pointer, to keep their
// stack frames small: thousands of goroutines may wait here at once.
func (q *Requests) resolve(ctx context.Context, ask *Ask, observer func(*Record)) (*Answer, error) {
	if err := ask.check(q.limits); err != nil {
		return nil, err
	}
	for {
		if a, err := q.attempt(ctx, ask, observer); a != nil || err != nil {
			return a, err
		}
		if a, err := q.bySibling(ctx, ask); a != nil || err != nil {
			return a, err
		}
	}
}

// bySibling finds a grant that was created while the call waited for a record that then served
// an identical call. It returns nil if no grant covers the call.
func (q *Requests) bySibling(ctx context.Context, ask *Ask) (*Answer, error) {
	if ask.Covers == nil {
		return nil, nil
	}
	grants, err := q.grants.Find(ctx, ask.Query())
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		covered, err := ask.Covers(ctx, g)
		if err != nil {
			return nil, err
		}
		if covered {
			a, err := q.grants.Answer(ctx, g.ID, *ask)
			return &a, err
		}
	}
	return nil, nil
}

// attempt makes one pass through the open requests. The answer is nil if the call must ask
// again, because its record served an identical call.
func (q *Requests) attempt(ctx context.Context, ask *Ask, observer func(*Record)) (*Answer, error) {
	if err := q.accepts(ask.SubjectType); err != nil {
		return nil, err
	}
	p, err := q.open.enter(ask)
	if err != nil {
		return nil, err
	}
	switch p.how {
	case remembered:
		a := answerOf(p.rec)
		until := p.rec.ClosedAt.Add(q.limits.Cooldown).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
		a.message += " (an identical request was answered recently; that answer holds until " + until + ")"
		a.remedy = a.Remedy() + " The same call can be requested again after " + until + "."
		return a, nil
	case claimed:
		observer(p.rec)
		return answerOf(p.rec), nil
	case created:
		err = q.create(ctx, p, ask)
	case joined:
		err = q.join(ctx, p, ask)
	}
	if err != nil {
		q.open.detach(p)
		return nil, err
	}
	return q.wait(ctx, p, observer)
}

// accepts returns nil if a new ask about the subject is accepted.
func (q *Requests) accepts(t SubjectType) error {
	if heldByFreeze(t) {
		if err := q.freezer.thawed(); err != nil {
			return err
		}
	}
	select {
	case <-q.stopping:
		return errStopping()
	default:
		return nil
	}
}

func errStopping() error {
	return reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the approval stays pending")
}

// create stores the record of a reserved request.
func (q *Requests) create(ctx context.Context, p place, ask *Ask) error {
	defer close(p.entry.ready)
	rec, err := ask.record(p.entry.id, q.records.now())
	if err == nil {
		err = describe(ctx, q.store, q.limits, &rec)
	}
	if err == nil {
		err = update(ctx, q.store, func(tx Tx) error {
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
		q.open.abandon(p, err)
		return err
	}
	q.records.settle(rec)
	return nil
}

// join journals that one more call waits on the record.
func (q *Requests) join(ctx context.Context, p place, ask *Ask) error {
	select {
	case <-p.entry.ready:
	case <-ctx.Done():
		return nil // wait detects the same state
	}
	return update(ctx, q.store, func(tx Tx) error {
		rec, err := tx.Record(p.entry.id)
		if errors.Is(err, ErrNotFound) || (err == nil && rec.State != Pending) {
			return nil // settled meanwhile, or never stored: wait detects it
		}
		if err != nil {
			return err
		}
		// The event belongs to the joining run, which may differ from the first one.
		d, err := draft(event.Joined, ask.Proposal.Session, ask.Proposal.Run, ask.Proposal.Caller.Principal.String(), rec.ID,
			JoinedPayload{ApprovalID: rec.ID, ProposalID: ask.Proposal.ID})
		if err != nil {
			return err
		}
		tx.Emit(d)
		return nil
	})
}

// wait returns when the record is settled for this call or ctx ends. The answer is nil if the
// record was allowed and served an identical call.
func (q *Requests) wait(ctx context.Context, p place, observer func(*Record)) (*Answer, error) {
	defer p.entry.markDelivered()
	for {
		select {
		case <-p.waiter.wake:
		case <-ctx.Done():
			return q.leave(ctx, p)
		case <-q.stopping:
			q.open.detach(p)
			return nil, errStopping()
		}
		now := q.open.look(p)
		if now.err != nil {
			return nil, now.err
		}
		if now.fresh {
			observer(now.rec)
			p.entry.markDelivered()
		}
		switch {
		case now.done && now.rec.State == Allowed && !now.served:
			return nil, nil
		case now.done:
			return answerOf(now.rec), nil
		}
	}
}

// leave ends the wait of a call whose context ended. The last call withdraws the record.
func (q *Requests) leave(ctx context.Context, p place) (*Answer, error) {
	stopping := reason.Of(context.Cause(ctx)) == reason.ShuttingDown
	rec, last := q.open.leave(p, !stopping)
	if stopping {
		return nil, errStopping()
	}
	if last {
		rec = q.withdraw(ctx, rec, left(ctx))
		q.open.reopen(p) // matters only if the cancel could not be stored
	}
	return removedAnswer(&rec, left(ctx)), nil
}

// left returns why a call stopped waiting: it was cancelled, or its caller disconnected.
func left(ctx context.Context) string {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && order.Code == reason.Cancelled {
		return order.Message
	}
	return "the caller disconnected while the call waited for approval"
}

// withdraw cancels a record without waiters, unless it is answered first, and returns it.
func (q *Requests) withdraw(ctx context.Context, rec Record, why string) Record {
	ctx = context.WithoutCancel(ctx)
	for {
		after, err := q.records.cancel(ctx, rec, rec.RequestedBy.String(), why)
		if err == nil {
			return after
		}
		if reason.Of(err) != reason.ApprovalConflict {
			q.log.ErrorContext(ctx, "cancelling an approval", slog.String("approval", rec.ID), slog.Any("error", err))
			return rec
		}
		if rec, err = q.store.Record(ctx, rec.ID); err != nil || rec.State != Pending {
			return rec
		}
	}
}
