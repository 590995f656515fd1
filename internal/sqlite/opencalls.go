package sqlite

import (
	"encoding/json"
	"slices"

	"palyra/internal/event"
	"palyra/internal/journal"
)

// indexEvent keeps what is looked up beside the journal in step with it, in
// the same transaction. It does in Go what triggers and one more index could
// do in SQL: a trigger on events makes SQLite open a statement journal for
// every insert, which doubles the cost of an append.
func (w *writer) indexEvent(e *journal.Event, drafts []event.Draft) error {
	if err := w.noteRun(e); err != nil {
		return err
	}
	switch e.Code {
	case event.Decided:
		if atOnce(drafts, e.Subject) {
			return nil
		}
		return w.openCall(e)
	case event.Attested, event.Ambiguous:
		if atOnce(drafts, e.Subject) {
			return nil
		}
		c := Conn{c: w.conn}
		return c.Query("DELETE FROM open_calls WHERE proposal_id = ?1", nil, e.Subject)
	}
	return nil
}

// atOnce reports whether a call's decision and attestation are in one unit: it
// was never open.
func atOnce(drafts []event.Draft, call string) bool {
	has := func(code event.Code) bool {
		return slices.ContainsFunc(drafts, func(d event.Draft) bool { return d.Code == code && d.Subject == call })
	}
	return has(event.Decided) && has(event.Attested)
}

// openCall remembers a call that was allowed and has no end yet, so that a
// start never scans the journal for calls that a crash left open.
func (w *writer) openCall(e *journal.Event) error {
	var decided struct {
		Allowed bool `json:"allowed"`
	}
	// What cannot be read counts as allowed: it is closed as ambiguous later,
	// and cannot fail the batch of others.
	if json.Unmarshal(e.Payload, &decided) == nil && !decided.Allowed {
		return nil
	}
	c := Conn{c: w.conn}
	return c.Query("INSERT INTO open_calls (proposal_id, session, run, actor) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
		nil, e.Subject, e.Session, e.Run, e.Actor)
}

// sessionRun is a run and the session it belongs to.
type sessionRun struct{ session, run string }

// maxKnownRuns bounds the writer's memory of pairs that are stored already.
const maxKnownRuns = 4096

// noteRun stores which runs a session has, once per run. Events of a session
// are then found through the index on run, and need none of their own.
func (w *writer) noteRun(e *journal.Event) error {
	pair := sessionRun{e.Session, e.Run}
	if pair.session == "" || pair.run == "" {
		return nil
	}
	if _, known := w.runs[pair]; known {
		return nil
	}
	if len(w.runs) >= maxKnownRuns {
		clear(w.runs)
	}
	w.runs[pair] = struct{}{}
	c := Conn{c: w.conn}
	return c.Query("INSERT INTO session_runs (session, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING", nil, pair.session, pair.run)
}
