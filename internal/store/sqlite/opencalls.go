package sqlite

import (
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// indexEvent updates the tables that are derived from an event, in the same transaction. SQL
// triggers are not used: a trigger on events makes SQLite open a statement journal for every
// insert, which doubles the cost of an append.
func (w *writer) indexEvent(e *journal.Event, drafts []event.Draft) error {
	if err := w.noteRun(e); err != nil {
		return err
	}
	if err := w.noteDevices(e); err != nil {
		return err
	}
	if err := w.notePlaces(e); err != nil {
		return err
	}
	if record.AtOnce(drafts, e.Subject) {
		return nil
	}
	c := Conn{c: w.conn}
	if record.Ends(e) {
		return c.Query("DELETE FROM open_calls WHERE proposal_id = ?1", nil, e.Subject)
	}
	if !record.Opens(e) {
		return nil
	}
	// The table lists the open calls, so that a start does not scan the journal for calls that a
	// crash left open.
	return c.Query("INSERT INTO open_calls (proposal_id, session, run, actor) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
		nil, e.Subject, e.Session, e.Run, e.Actor)
}

// sessionRun is a run and the session it belongs to.
type sessionRun struct{ session, run string }

// maxKnownRuns bounds the writer's cache of pairs that are already stored.
const maxKnownRuns = 4096

// noteRun stores the runs of a session, once per run. Events of a session are found through the
// index on run and need no row of their own.
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

// maxKnownCounts bounds the writer's cache of the oldest counted calls.
const maxKnownCounts = 1024

// cutEvery is the number of recorded calls between two removals of rows beyond the counting limit.
const cutEvery = 1000

// countedBy is the key by which calls that ran without an approval are counted.
type countedBy struct{ requestedBy, onBehalfOf, tool string }

// noteUnasked records a call that runs without an approval, for Lately. It removes expired rows
// with the same key on every call, and rows beyond the counting limit once per cutEvery calls.
func (w *writer) noteUnasked(e *journal.Event, u *event.Unasked) error {
	if u == nil {
		return nil
	}
	like := countedBy{u.RequestedBy, u.OnBehalfOf, u.Tool}
	if err := w.forgetUnasked(like, e.At.Add(-approval.LatelySpan)); err != nil {
		return fmt.Errorf("forgetting calls that are not counted: %w", err)
	}
	c := Conn{c: w.conn}
	return c.Query(`INSERT INTO unasked_calls (requested_by, on_behalf_of, tool, at, proposal_id, subject, call_digest, session)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING`,
		nil, u.RequestedBy, u.OnBehalfOf, u.Tool, e.At, e.Subject, u.Subject, u.CallDigest, e.Session)
}

// forgetUnasked deletes the calls from before a time, unless the oldest call is known to be newer.
func (w *writer) forgetUnasked(like countedBy, before time.Time) error {
	const these = "FROM unasked_calls WHERE requested_by = ?1 AND on_behalf_of = ?2 AND tool = ?3"
	c := Conn{c: w.conn}
	if oldest, known := w.oldest[like]; !known || oldest.Before(before) {
		if err := c.Query("DELETE "+these+" AND at < ?4", nil, like.requestedBy, like.onBehalfOf, like.tool, before); err != nil {
			return err
		}
		oldest = before.Add(approval.LatelySpan) // the expiry for the new call
		_, err := c.QueryRow("SELECT at "+these+" ORDER BY at LIMIT 1", func(r *Row) error { oldest = r.Time(0); return nil }, like.requestedBy, like.onBehalfOf, like.tool)
		if err != nil {
			return err
		}
		if len(w.oldest) >= maxKnownCounts {
			clear(w.oldest)
		}
		w.oldest[like] = oldest
	}
	if w.unasked++; w.unasked%cutEvery != 0 {
		return nil
	}
	const last = "(SELECT at " + these + " ORDER BY at DESC LIMIT 1 OFFSET ?4)"
	return c.Query("DELETE "+these+" AND at < "+last, nil, like.requestedBy, like.onBehalfOf, like.tool, approval.MostLately)
}
