package approval

import (
	"context"
	"log/slog"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

const (
	// sweepBatch bounds the number of items that one unit expires.
	sweepBatch = 256
	// sweepRetry is the pause after a unit that could not be stored.
	sweepRetry = time.Second
	// sweepIdle is the sleep of Run without deadlines; expired counters are removed afterwards.
	sweepIdle = time.Hour
)

// sweep ends all due records and grants and returns how long to sleep.
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

// endAll ends the items in one unit. If that fails for a reason other than the journal's, it
// ends each in its own unit, so that one bad row does not block the others.
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

// takeDue removes the due items, or returns the time until the next deadline.
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

// postpone reschedules items that could not be ended. They cannot allow anything meanwhile,
// because their deadlines have passed; their waiting calls get the error now.
func (d *Desk) postpone(ctx context.Context, items []due, err error) {
	d.log.ErrorContext(ctx, "ending expired approvals and grants", slog.Int("count", len(items)), slog.Any("error", err))
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

// endGrants ends grants in one unit. Grants that were revoked meanwhile are skipped. Without a
// note, the note names the deadline that passed.
func (d *Desk) endGrants(ctx context.Context, items []due, note string) error {
	if len(items) == 0 {
		return nil
	}
	var expired []Grant
	err := d.update(ctx, func(tx Tx) error {
		expired = expired[:0]
		now := d.now()
		for _, item := range items {
			g, err := endGrant(tx, item.id, note, now)
			switch reason.Of(err) {
			case "", reason.ApprovalRevoked, reason.ApprovalExpired:
				expired = append(expired, g)
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
	for _, g := range expired {
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
