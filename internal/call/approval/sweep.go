package approval

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

const (
	// sweepBatch bounds what one unit expires.
	sweepBatch = 256
	// sweepRetry is the pause after a unit that could not be stored.
	sweepRetry = time.Second
	// sweepIdle is how long Run sleeps when nothing is due; it then forgets
	// counters that no longer count.
	sweepIdle = time.Hour
)

// sweep ends everything that is due and returns how long to sleep.
func (d *Desk) sweep(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		records, grants, wait := d.takeDue()
		if len(records)+len(grants) == 0 {
			return wait
		}
		d.endAll(ctx, records, d.expire)
		d.endAll(ctx, grants, func(ctx context.Context, items []due) error { return d.endGrants(ctx, items, "") })
	}
	return sweepIdle
}

// endAll ends the items in one unit; when that fails for a reason other than
// the journal's, each in one of its own, so that one bad row holds up no other.
func (d *Desk) endAll(ctx context.Context, items []due, end func(context.Context, []due) error) {
	err := end(ctx, items)
	switch {
	case err == nil:
	case len(items) == 1 || reason.Of(err) == reason.JournalUnavailable:
		d.postpone(ctx, items, err)
	default:
		for i := range items {
			d.endAll(ctx, items[i:i+1], end)
		}
	}
}

// takeDue takes out what is due, or says how long nothing will be.
func (d *Desk) takeDue() (records, grants []due, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, item := range d.due.pop(now, sweepBatch) {
		if !item.grant {
			records = append(records, item)
			continue
		}
		g, ok := d.grants.byID[item.id]
		if ok && now.Before(d.grants.ends(g)) {
			d.due.set(item.id, true, d.grants.ends(g)) // its session was active
			continue
		}
		grants = append(grants, item)
	}
	d.quota.forget(now)
	d.cool.forget(now)
	next, ok := d.due.next()
	if !ok {
		return records, grants, sweepIdle
	}
	// The clock is read in microseconds, rounded down: sleep past the mark.
	return records, grants, min(max(next.Sub(now), 0)+time.Microsecond, sweepIdle)
}

// postpone puts back what could not be ended. Nothing can be allowed by it
// meanwhile, as its time is up; calls that wait for it are told now.
func (d *Desk) postpone(ctx context.Context, items []due, err error) {
	d.log.ErrorContext(ctx, "ending approvals and grants whose time is up", slog.Int("count", len(items)), slog.Any("error", err))
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.now().Add(sweepRetry)
	for _, item := range items {
		if e, ok := d.open[item.id]; ok {
			for _, w := range e.waiters {
				w.finish(nil, false, err)
			}
			e.waiters = nil
		}
		d.due.set(item.id, item.grant, at)
	}
}

// expiry is the step that expires a record in its present state.
func expiry(rec Record, note string) step {
	return step{
		id: rec.ID, from: rec.State, version: rec.Version, to: Expired,
		actor: daemon, note: note, events: stateEvents(event.Expired, rec.State),
	}
}

// expire expires, in one unit, those of the records whose time is up. What
// was settled meanwhile is passed over.
func (d *Desk) expire(ctx context.Context, items []due) error {
	if len(items) == 0 {
		return nil
	}
	var expired []Record
	err := d.update(ctx, func(tx Tx) error {
		expired = expired[:0]
		for _, item := range items {
			rec, err := d.expireIn(tx, item.id)
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
		d.settle(rec)
	}
	return nil
}

func (d *Desk) expireIn(tx Tx, id string) (Record, error) {
	rec, err := tx.Record(id)
	if errors.Is(err, ErrNotFound) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	now := d.now()
	deadline := rec.deadline()
	if deadline.IsZero() || now.Before(deadline) {
		return Record{}, nil
	}
	note := "nobody answered in time"
	if rec.State == Allowed {
		note = "nobody used it in time"
	}
	s := expiry(rec, note)
	s.at = now
	return transition(tx, s)
}

// endGrants ends grants in one unit. One that was revoked meanwhile is passed
// over. Without a note, the note says which clock ran out.
func (d *Desk) endGrants(ctx context.Context, items []due, note string) error {
	if len(items) == 0 {
		return nil
	}
	var ended []Grant
	err := d.update(ctx, func(tx Tx) error {
		ended = ended[:0]
		now := d.now()
		for _, item := range items {
			g, err := endGrant(tx, item.id, note, now)
			switch reason.Of(err) {
			case "", reason.ApprovalRevoked, reason.ApprovalExpired:
				ended = append(ended, g)
			case reason.NotFound:
			default:
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range ended {
		d.keepGrant(g)
	}
	return nil
}

func endGrant(tx Tx, id, note string, now time.Time) (Grant, error) {
	return changeGrant(tx, id, func(g *Grant) {
		g.EndedAt, g.EndNote = now, note
		switch {
		case !now.Before(g.ExpiresAt):
			g.EndedAt, g.EndNote = g.ExpiresAt, "its time was up"
		case note == "":
			g.EndNote = "its session was idle"
		}
	}, grantEvents(event.GrantEnded, daemon, func(g Grant) any {
		return GrantClosedPayload{GrantID: g.ID, ApprovalID: g.ApprovalID, By: daemon, Note: g.EndNote, Uses: g.Uses}
	}))
}
