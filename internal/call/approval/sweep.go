package approval

import (
	"context"
	"fmt"
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
		now := d.now()
		records, expiry := d.open.overdue(now, sweepBatch)
		grants, end := d.Grants.overdue(now, sweepBatch)
		if len(records)+len(grants) == 0 {
			return min(pause(now, expiry), pause(now, end))
		}
		d.endAll(ctx, records, d.Records.expire, d.open.postpone)
		d.endAll(ctx, grants, func(ctx context.Context, ids []string) error { return d.Grants.end(ctx, ids, "") }, d.Grants.postpone)
	}
	return sweepIdle
}

// pause returns the time until the next deadline, or zero without one. The clock is
// read in microseconds, rounded down: the pause ends past the mark.
func pause(now, next time.Time) time.Duration {
	if next.IsZero() {
		return sweepIdle
	}
	return min(max(next.Sub(now), 0)+time.Microsecond, sweepIdle)
}

// endAll ends the items in one unit. If that fails for a reason other than the journal's, it
// ends each in its own unit, so that one bad row does not block the others. It postpones items
// that could not be ended. They cannot allow anything meanwhile, because their deadlines have
// passed.
func (d *Desk) endAll(ctx context.Context, ids []string, end func(context.Context, []string) error, postpone func([]string, time.Time, error)) {
	err := end(ctx, ids)
	switch {
	case err == nil:
	case len(ids) == 1 || reason.Of(err) == reason.JournalUnavailable:
		d.log.ErrorContext(ctx, "ending expired approvals and grants", slog.Int("count", len(ids)), slog.Any("error", err))
		postpone(ids, d.now().Add(sweepRetry), err)
	default:
		for i := range ids {
			d.endAll(ctx, ids[i:i+1], end, postpone)
		}
	}
}

// each calls fn with every open record. fn MUST NOT change or keep it.
func (m *requestsInMemory) each(fn func(*Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.byID {
		fn(&e.rec)
	}
}

// overdue removes at most limit deadlines that have passed and returns their ids, and the next
// deadline, which is zero if none is left.
func (m *requestsInMemory) overdue(now time.Time, limit int) ([]string, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := m.due.Pop(now, limit)
	m.quota.forget(now)
	m.cool.forget(now)
	return ids, m.due.Next()
}

// postpone moves the deadlines of requests that could not be expired, and returns err to their
// waiters.
func (m *requestsInMemory) postpone(ids []string, until time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if e, ok := m.byID[id]; ok {
			e.fail(err)
		}
		m.due.Set(id, until)
	}
}

// overdue removes at most limit deadlines that have passed and returns the ids of grants that
// end, and the next deadline.
func (s *Grants) overdue(now time.Time, limit int) (ids []string, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.due.Pop(now, limit) {
		if g, ok := s.book.byID[id]; ok && now.Before(s.book.ends(g)) {
			s.due.Set(id, s.book.ends(g)) // its session was active
			continue
		}
		ids = append(ids, id)
	}
	return ids, s.due.Next()
}

// postpone moves the deadlines of grants that could not be ended.
func (s *Grants) postpone(ids []string, until time.Time, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.due.Set(id, until)
	}
}

// end ends grants in one unit. Grants that were revoked meanwhile are skipped. Without a note,
// the note names the deadline that passed.
func (s *Grants) end(ctx context.Context, ids []string, note string) error {
	if len(ids) == 0 {
		return nil
	}
	var expired []Grant
	err := update(ctx, s.store, func(tx Tx) error {
		expired = expired[:0]
		now := s.now()
		for _, id := range ids {
			g, err := endGrant(tx, id, note, now)
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
		s.keep(g)
	}
	return nil
}

// GrantClosedPayload is the payload of event.GrantRevoked and event.GrantEnded.
type GrantClosedPayload struct {
	GrantID    string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	By         string `json:"by"`
	Note       string `json:"note"`
	Uses       int64  `json:"uses"`
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

// EndSession ends a session: its session grants end, its pending records are cancelled, and its
// allowed records that were not consumed expire.
func (d *Desk) EndSession(ctx context.Context, session string) error {
	if session == "" {
		return reason.Errorf(reason.InvalidInput, "ending a session: the id is empty")
	}
	grants, records := d.Grants.ofSession(session), []string(nil)
	d.open.each(func(rec *Record) {
		if rec.Session == session {
			records = append(records, rec.ID)
		}
	})
	const note = "the session ended"
	for _, id := range grants {
		if err := d.Grants.end(ctx, []string{id}, note); err != nil {
			return fmt.Errorf("ending session: %w", err)
		}
	}
	for _, id := range records {
		if err := d.Records.end(ctx, id, note); err != nil {
			return fmt.Errorf("ending session: %w", err)
		}
	}
	return nil
}

// ofSession returns the ids of the session grants of a session.
func (s *Grants) ofSession(session string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, g := range s.book.byID {
		if g.Scope == Session && g.Session == session {
			ids = append(ids, id)
		}
	}
	return ids
}

// forget removes runs and principals that created nothing within the window.
func (q *quota) forget(now time.Time) {
	forget(q.created, now)
	forget(q.perPrincipal, now)
}
