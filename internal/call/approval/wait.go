package approval

import (
	"context"
	"errors"
	"log/slog"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

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

// leave ends the wait of a call whose context ended. The last call that leaves withdraws the
// record.
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

// left returns the reason why a call stopped waiting: it was cancelled, or its caller
// disconnected.
func left(ctx context.Context) string {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && order.Code == reason.Cancelled {
		return order.Message
	}
	return "the caller disconnected while the call waited for approval"
}

// withdraw cancels a record without waiters, unless it is answered first. It returns the
// updated record.
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
