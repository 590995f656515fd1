package approval

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// abort removes an entry whose record could not be stored, and returns the error to its
// waiters.
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
		return nil // wait detects the same state
	}
	return d.update(ctx, func(tx Tx) error {
		rec, err := tx.Record(e.id)
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

// detach removes a waiter without side effects.
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
		e.leaving = false // matters only if the cancel could not be stored
		d.mu.Unlock()
	}
	return removedAnswer(&rec, left(ctx)), nil
}

// left returns the reason why a call stopped waiting: it was cancelled, or its caller
// disconnected.
func left(ctx context.Context) string {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && order.Code == reason.Cancelled {
		return order.Message
	}
	return "the caller disconnected while the call waited for approval"
}

// depart removes the waiter. It reports whether the record must be cancelled because the waiter
// was the last one.
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

// withdraw cancels a record without waiters, unless it is answered first. It returns the
// updated record.
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
