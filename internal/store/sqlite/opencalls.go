package sqlite

import (
	"fmt"
	"time"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// eventIndex keeps the tables that are derived from events. SQL triggers are not used: a trigger on
// events makes SQLite open a statement journal for every insert, which doubles the cost of an
// append.
type eventIndex struct {
	conn    *zs.Conn
	runs    map[sessionRun]struct{} // pairs that are stored
	unasked int                     // number of recorded calls that ran without an approval
	oldest  map[countedBy]time.Time // time of the oldest such call with a key, or an earlier time
	tile    openTile                // places of codes and actors in the incomplete tile
}

func newEventIndex(conn *zs.Conn) eventIndex {
	return eventIndex{conn: conn, runs: map[sessionRun]struct{}{}, oldest: map[countedBy]time.Time{}}
}

// forget empties the caches of rows that may not be stored.
func (x *eventIndex) forget() {
	clear(x.runs)
	clear(x.oldest)
}

// note updates the tables for an event, in the same transaction.
func (x *eventIndex) note(e *journal.Event, drafts []event.Draft) error {
	if err := x.noteRun(e); err != nil {
		return err
	}
	c := Conn{c: x.conn}
	if err := noteDevices(&c, e); err != nil {
		return err
	}
	if err := x.notePlaces(e); err != nil {
		return err
	}
	if record.AtOnce(drafts, e.Subject) {
		return nil
	}
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

// maxKnownRuns bounds the cache of pairs that are already stored.
const maxKnownRuns = 4096

// noteRun stores the runs of a session, once per run. Events of a session are found through the
// index on run and need no row of their own.
func (x *eventIndex) noteRun(e *journal.Event) error {
	pair := sessionRun{e.Session, e.Run}
	if pair.session == "" || pair.run == "" {
		return nil
	}
	if _, known := x.runs[pair]; known {
		return nil
	}
	if len(x.runs) >= maxKnownRuns {
		clear(x.runs)
	}
	x.runs[pair] = struct{}{}
	c := Conn{c: x.conn}
	return c.Query("INSERT INTO session_runs (session, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING", nil, pair.session, pair.run)
}

// maxKnownCounts bounds the cache of the oldest counted calls.
const maxKnownCounts = 1024

// cutEvery is the number of recorded calls between two removals of rows beyond the counting limit.
const cutEvery = 1000

// countedBy is the key by which calls that ran without an approval are counted.
type countedBy struct{ requestedBy, onBehalfOf, tool string }

// noteUnasked records a call that runs without an approval, for Lately. It removes expired rows
// with the same key on every call, and rows beyond the counting limit once per cutEvery calls.
func (x *eventIndex) noteUnasked(e *journal.Event, u *event.Unasked) error {
	if u == nil {
		return nil
	}
	like := countedBy{u.RequestedBy, u.OnBehalfOf, u.Tool}
	if err := x.forgetUnasked(like, e.At.Add(-approval.LatelySpan)); err != nil {
		return fmt.Errorf("forgetting calls that are not counted: %w", err)
	}
	c := Conn{c: x.conn}
	return c.Query(`INSERT INTO unasked_calls (requested_by, on_behalf_of, tool, at, proposal_id, subject, call_digest, session)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING`,
		nil, u.RequestedBy, u.OnBehalfOf, u.Tool, e.At, e.Subject, u.Subject, u.CallDigest, e.Session)
}

// forgetUnasked deletes the calls from before a time, unless the oldest call is known to be newer.
func (x *eventIndex) forgetUnasked(like countedBy, before time.Time) error {
	const these = "FROM unasked_calls WHERE requested_by = ?1 AND on_behalf_of = ?2 AND tool = ?3"
	c := Conn{c: x.conn}
	if oldest, known := x.oldest[like]; !known || oldest.Before(before) {
		if err := c.Query("DELETE "+these+" AND at < ?4", nil, like.requestedBy, like.onBehalfOf, like.tool, before); err != nil {
			return err
		}
		oldest = before.Add(approval.LatelySpan) // the expiry for the new call
		_, err := c.QueryRow("SELECT at "+these+" ORDER BY at LIMIT 1", func(r *Row) error { oldest = r.Time(0); return nil }, like.requestedBy, like.onBehalfOf, like.tool)
		if err != nil {
			return err
		}
		if len(x.oldest) >= maxKnownCounts {
			clear(x.oldest)
		}
		x.oldest[like] = oldest
	}
	if x.unasked++; x.unasked%cutEvery != 0 {
		return nil
	}
	const last = "(SELECT at " + these + " ORDER BY at DESC LIMIT 1 OFFSET ?4)"
	return c.Query("DELETE "+these+" AND at < "+last, nil, like.requestedBy, like.onBehalfOf, like.tool, approval.MostLately)
}
