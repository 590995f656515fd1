package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/reason"
	"palyra/internal/session"
	"palyra/internal/toolcall"
)

// joinSession makes a call one of its session's, and the session with its first
// call.
func joinSession(tx *Tx, m *session.Member) error {
	if r := m.New; r != nil {
		_, err := tx.Exec(`INSERT INTO sessions (id, principal, device, client, on_behalf_of, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
 ON CONFLICT DO NOTHING`, r.ID, r.Principal.String(), r.Device, string(r.Client), r.OnBehalfOf.String(), r.StartedAt)
		if err != nil {
			return fmt.Errorf("storing a session: %w", err)
		}
	}
	_, err := tx.Exec("INSERT INTO session_calls (session, proposal_id, of_run) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
		m.Session, m.Proposal, m.OfRun)
	if err != nil {
		return fmt.Errorf("adding a call to its session: %w", err)
	}
	return nil
}

const sessionColumns = "id, principal, device, client, on_behalf_of, started_at, ended_at, ended_by, end_reason"

func scanSession(r *Row) (session.Past, error) {
	p := session.Past{
		Row: session.Row{
			ID: r.Text(0), Key: session.Key{Device: r.Text(2), Client: session.Client(r.Text(3))}, StartedAt: r.Time(5),
		},
		EndedAt: r.Time(6), EndReason: r.Text(8),
	}
	for i, into := range map[int]*access.Principal{1: &p.Principal, 4: &p.OnBehalfOf, 7: &p.EndedBy} {
		if err := into.UnmarshalText([]byte(r.Text(i))); err != nil {
			return p, fmt.Errorf("reading session %s: %w", p.ID, err)
		}
	}
	return p, nil
}

// NewestSession returns the newest session of a key with what its calls did.
func (s *Calls) NewestSession(ctx context.Context, k session.Key) (past session.Past, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		past, found, err = c.session("principal = ?1 AND device = ?2 AND client = ?3 ORDER BY id DESC LIMIT 1",
			k.Principal.String(), k.Device, string(k.Client))
		return err
	})
	return past, found, err
}

// session reads one session, and what its calls did.
func (c *Conn) session(where string, args ...any) (past session.Past, found bool, err error) {
	var scanned error
	found, err = c.QueryRow("SELECT "+sessionColumns+" FROM sessions WHERE "+where, func(r *Row) error {
		past, scanned = scanSession(r)
		return scanned
	}, args...)
	if err != nil || !found {
		return past, found, err
	}
	past.Did, err = c.did(past.Row)
	return past, true, err
}

// did folds the calls of a session out of the journal. It counts as a session
// does that is remembered: what was proposed, and what of it was let through.
func (c *Conn) did(row session.Row) (session.Did, error) {
	did := session.Did{LastAt: row.StartedAt}
	err := c.Query(sessionCalls, func(r *Row) error {
		if r.Int64(0) != 0 {
			did.RunCalls++
		} else {
			did.Facts.CallsInRun++
		}
		if name := r.Text(1); name != "" {
			did.Facts.ToolsUsed = append(did.Facts.ToolsUsed, name)
		}
		did.Facts.Tainted = did.Facts.Tainted || r.Int64(2) != 0
		did.Facts.BytesOut += r.Int64(3)
		if at := r.Time(4); at.After(did.LastAt) {
			did.LastAt = at
		}
		return nil
	}, append([]any{row.ID}, foldCodes...)...)
	if err != nil {
		return did, err
	}
	slices.Sort(did.Facts.ToolsUsed)
	did.Facts.ToolsUsed = slices.Compact(did.Facts.ToolsUsed)
	err = c.Query(sessionSecrets, func(r *Row) error {
		did.Facts.SecretsRead = append(did.Facts.SecretsRead, r.Text(0))
		return nil
	}, row.ID, event.Evaluated, event.Decided)
	if err != nil {
		return did, err
	}
	return did, c.allowedLimit(row.ID, &did)
}

// allowedLimit reads how far people let the session go on.
func (c *Conn) allowedLimit(id string, did *session.Did) error {
	return c.Query("SELECT payload FROM events WHERE subject = ?1 AND subject <> '' AND code = ?2", func(r *Row) error {
		var p toolcall.SessionExtendedPayload
		if err := json.Unmarshal(r.Bytes(0), &p); err != nil {
			return fmt.Errorf("reading how far session %s may go on: %w", id, err)
		}
		did.Limit = max(did.Limit, p.Limit)
		return nil
	}, id, event.SessionExtended)
}

// foldCodes are the arguments of sessionCalls after the session.
var foldCodes = []any{event.Proposed, event.Evaluated, event.Decided, event.Attested}

// unseenModes are toolcall.Unseen as SQL.
var unseenModes = "('" + strings.Join(toolcall.Unseen, "', '") + "')"

// sessionCalls has one row per call: whether it is of a run, the tool and the
// taint of one that was let through, what it sent (what it may have sent, where
// nobody saw or its end is unknown), and when something of it happened last.
// Evaluations of its changes are not of the call. A payload that was erased
// counts as if the call had been let through, and had read.
var sessionCalls = `WITH call AS (
 SELECT s.of_run AS of_run,
  max(CASE WHEN e.code = ?2 THEN json_extract(CAST(e.payload AS TEXT), '$.tool') END) AS tool,
  max(CASE WHEN e.code = ?2 THEN coalesce(json_extract(CAST(e.payload AS TEXT), '$.open_world'), e.payload IS NULL) END) AS open_world,
  max(CASE WHEN e.code = ?3 THEN json_extract(CAST(e.payload AS TEXT), '$.may_send') END) AS may_send,
  max(CASE WHEN e.code = ?3 AND json_extract(CAST(e.payload AS TEXT), '$.request.commit') IS NULL
   THEN json_extract(CAST(e.payload AS TEXT), '$.request.facts.egress_mode') IN ` + unseenModes + ` END) AS open_network,
  max(CASE WHEN e.code = ?4 THEN coalesce(json_extract(CAST(e.payload AS TEXT), '$.allowed'), e.payload IS NULL) END) AS allowed,
  max(e.code = ?5) AS ended,
  max(CASE WHEN e.code = ?5 THEN coalesce(json_extract(CAST(e.payload AS TEXT), '$.report.egress.mode') IN ` + unseenModes + `, 0) END) AS unseen,
  max(CASE WHEN e.code = ?5 THEN EXISTS (SELECT 1 FROM json_each(CAST(e.payload AS TEXT), '$.report.egress.observed') o
   WHERE json_extract(o.value, '$.bytes_in') > 0) END) AS read,
  sum(CASE WHEN e.code = ?5 THEN (SELECT sum(json_extract(o.value, '$.bytes_out'))
   FROM json_each(CAST(e.payload AS TEXT), '$.report.egress.observed') o) END) AS sent,
  max(e.at) AS at
 FROM session_calls s JOIN events e ON e.subject = s.proposal_id AND e.subject <> ''
 WHERE s.session = ?1 GROUP BY s.proposal_id)
SELECT of_run, CASE WHEN allowed THEN tool ELSE '' END,
 allowed AND (coalesce(open_world, 0) OR coalesce(open_network, 0)) OR coalesce(unseen, 0) OR coalesce(read, 0),
 CASE WHEN NOT coalesce(allowed, 0) THEN 0
  WHEN NOT ended THEN coalesce(may_send, 0)
  WHEN unseen THEN max(coalesce(may_send, 0), coalesce(sent, 0))
  ELSE coalesce(sent, 0) END,
 at FROM call`

// sessionSecrets has the names of the secrets that calls could use which were
// let through, whatever became of them.
const sessionSecrets = `SELECT DISTINCT f.value FROM session_calls s JOIN events e ON e.subject = s.proposal_id AND e.subject <> '' AND e.code = ?2,
 json_each(CAST(e.payload AS TEXT), '$.request.facts.secrets') f
 WHERE s.session = ?1 AND json_extract(CAST(e.payload AS TEXT), '$.request.commit') IS NULL AND EXISTS (SELECT 1 FROM events d
  WHERE d.subject = e.subject AND d.subject <> '' AND d.code = ?3 AND json_extract(CAST(d.payload AS TEXT), '$.allowed')) ORDER BY 1`

// RunCalls counts the proposals of a run, those that were refused included.
func (s *Calls) RunCalls(ctx context.Context, p access.Principal, run string) (calls int, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		_, err := c.QueryRow(`SELECT count(DISTINCT subject) FROM events WHERE run = ?1 AND run <> '' AND actor = ?2 AND code IN (?3, ?4)`,
			func(r *Row) error { calls = int(r.Int64(0)); return nil }, run, p.String(), event.Proposed, event.Refused)
		return err
	})
	return calls, err
}

// Session returns a session by its id.
func (s *Calls) Session(ctx context.Context, id string) (past session.Past, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		past, found, err = c.session("id = ?1", id)
		return err
	})
	return past, found, err
}

// mostSessions bounds a page.
const mostSessions = 500

// Sessions returns one page of sessions, newest first. Of what they did it has
// the number of calls, and when something happened last.
func (s *Calls) Sessions(ctx context.Context, f session.Filter) (page []session.Past, next string, err error) {
	size := min(f.PageSize, mostSessions)
	if size <= 0 {
		size = 50
	}
	where := whereClause{}
	whereRunsOf(&where, f.Principal)
	whereRunsOf(&where, f.Of)
	if f.Open {
		where.add("ended_at IS NULL")
	}
	if f.PageToken != "" {
		where.add("id < ?", f.PageToken)
	}
	err = s.db.Read(ctx, func(c *Conn) error {
		err := c.Query("SELECT "+sessionColumns+", "+sessionTotals+" FROM sessions"+where.sql(size+1), func(r *Row) error {
			p, err := scanSession(r)
			p.RunCalls, p.Facts.CallsInRun = r.Int(9), r.Int(10)
			if p.LastAt = r.Time(11); p.LastAt.IsZero() {
				p.LastAt = p.StartedAt
			}
			page = append(page, p)
			return err
		}, where.args...)
		return err
	})
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID
	}
	return page, next, err
}

// sessionTotals are the calls of runs, those of none, and the time of the last
// event of the call that was proposed last.
const sessionTotals = `(SELECT count(*) FROM session_calls s WHERE s.session = sessions.id AND s.of_run = 1),
 (SELECT count(*) FROM session_calls s WHERE s.session = sessions.id AND s.of_run = 0),
 (SELECT max(e.at) FROM events e WHERE e.subject <> '' AND e.subject = (SELECT max(s.proposal_id) FROM session_calls s WHERE s.session = sessions.id))`

// EndSession ends a session, unless it has ended.
func (s *Calls) EndSession(ctx context.Context, e session.Ending, d event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{Events: []event.Draft{d}, Check: func(tx *Tx) error {
		changed, err := tx.Exec("UPDATE sessions SET ended_at = ?1, ended_by = ?2, end_reason = ?3 WHERE id = ?4 AND ended_at IS NULL",
			tx.Now(), e.By.String(), e.Reason, e.ID)
		switch {
		case err != nil:
			return fmt.Errorf("storing the end of a session: %w", err)
		case changed == 0:
			return reason.Errorf(reason.AlreadyExists, "session %s has been ended already", e.ID)
		}
		return nil
	}})
	return err
}
