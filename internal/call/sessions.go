package call

import (
	"context"
	"time"

	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// EndSession ends a session: its caller's next call begins another session with all counts at
// zero. Calls under way end in the session that counts them.
func (p *Pipeline) EndSession(ctx context.Context, e session.Ending) error {
	payload, err := canonical.Marshal(record.SessionEnded{
		Session: e.ID, Principal: e.Key.Principal.String(), DeviceID: e.Key.Device, Client: e.Key.Client, EndedBy: e.By.String(), Reason: e.Reason,
	})
	if err != nil {
		return err
	}
	draft := event.Draft{Code: event.SessionEnded, Actor: e.By.String(), Subject: e.ID, Payload: payload}
	if err := p.Ledger.EndSession(ctx, e, draft); err != nil {
		return unwritten(err)
	}
	p.sessions.Ended(e.Key, e.ID)
	return nil
}

// Sessions lists sessions, newest first, without the facts that policy reads of them.
func (p *Pipeline) Sessions(ctx context.Context, f session.Filter) ([]session.Past, string, error) {
	list, next, err := p.Ledger.Sessions(ctx, f)
	for i := range list {
		p.bringUp(&list[i])
	}
	return list, next, err
}

// Session returns one session with all its counts.
func (p *Pipeline) Session(ctx context.Context, id string) (session.Past, error) {
	var facts record.Facts
	past, found, err := p.Ledger.Session(ctx, id, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	if err == nil && !found {
		err = NoSession(id)
	}
	p.bringUp(&past)
	return past, err
}

// NoSession is the error for a session that does not exist. The same error is returned for a
// session that the caller may not see.
func NoSession(id string) error {
	return reason.Errorf(reason.NotFound, "session %s does not exist", id).WithRemedy("List sessions with `palyra sessions list`.")
}

// bringUp replaces the stored facts of a live session by those in memory, which include the
// calls under way.
func (p *Pipeline) bringUp(past *session.Past) {
	if did, live := p.sessions.Did(past.Key, past.ID); live {
		past.Did = did
	}
}

// SessionGoesOn reports whether the session is still active, so that the next call of its
// caller belongs to it.
func (p *Pipeline) SessionGoesOn(past session.Past) bool {
	return past.EndedAt.IsZero() && (past.Facts.InFlight > 0 || time.Since(past.LastAt) <= p.sessions.Idle())
}
