package sqlite

import (
	"context"
	"fmt"
	"strings"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/call"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// joinSession adds a call to its session, and creates the session at its first call.
func joinSession(tx *Tx, m *session.Member) error {
	if r := m.New; r != nil {
		_, err := tx.Exec(`INSERT INTO sessions (id, principal, device, client, on_behalf_of, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
 ON CONFLICT DO NOTHING`, r.ID, r.Principal.String(), r.Device, string(r.Client), r.OnBehalfOf.String(), r.StartedAt)
		if err != nil {
			return fmt.Errorf("storing a session: %w", err)
		}
	}
	n, err := tx.Exec("INSERT INTO recent_calls (proposal_id, session, of_run) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
		m.Proposal, m.Session, m.OfRun)
	if err != nil {
		return fmt.Errorf("adding a call to its session: %w", err)
	}
	tx.joined += n
	return nil
}

// mostRecent is the maximum number of recent calls, which fit on one page.
const mostRecent = 64

// recentCalls counts the calls that are only in recent_calls. writer.connMu guards it.
type recentCalls struct {
	conn *zs.Conn
	n    int
}

// load counts the stored rows.
func (q *recentCalls) load() error {
	c := Conn{c: q.conn}
	_, err := c.QueryRow("SELECT count(*) FROM recent_calls", func(r *Row) error { q.n = r.Int(0); return nil })
	return err
}

// settle moves the recent calls, once they are many, to the table with the indexes by session,
// principal and user. Moving each call alone would write a page of four indexes.
func (q *recentCalls) settle() error {
	if q.n < mostRecent {
		return nil
	}
	q.n = 0
	c := Conn{c: q.conn}
	err := c.Query(`INSERT INTO session_calls (session, proposal_id, of_run, principal, on_behalf_of)
 SELECT session, proposal_id, of_run, principal, on_behalf_of FROM newest_calls`, nil)
	if err == nil {
		err = c.Query("DELETE FROM recent_calls", nil)
	}
	if err != nil {
		return fmt.Errorf("settling recent calls: %w", err)
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

// NewestSession returns the newest session of a key, and passes its events and the events of its
// calls to each.
func (s *Calls) NewestSession(ctx context.Context, k session.Key, each call.EachEvent) (session.Past, bool, error) {
	return s.session(ctx, each, "principal = ?1 AND device = ?2 AND client = ?3 ORDER BY id DESC LIMIT 1",
		k.Principal.String(), k.Device, string(k.Client))
}

// Session returns a session by its id, like NewestSession.
func (s *Calls) Session(ctx context.Context, id string, each call.EachEvent) (session.Past, bool, error) {
	return s.session(ctx, each, "id = ?1", id)
}

// session reads one session, and its events within the same snapshot.
func (s *Calls) session(ctx context.Context, each call.EachEvent, where string, args ...any) (past session.Past, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		var scanned error
		found, err = c.QueryRow("SELECT "+sessionColumns+" FROM sessions WHERE "+where, func(r *Row) error {
			past, scanned = scanSession(r)
			return scanned
		}, args...)
		if err != nil || !found {
			return err
		}
		return c.sessionEvents(past.ID, each)
	})
	return past, found, err
}

const sessionCallEvents = "SELECT " + eventColumns + ", of_run FROM (SELECT e.*, s.of_run FROM calls s CROSS JOIN events e ON e.subject = s.proposal_id AND e.subject <> '' WHERE s.session = ?1)"

// sessionEvents reads the events of a session and of its calls.
func (c *Conn) sessionEvents(id string, each call.EachEvent) error {
	events := eventScanner{}
	for _, query := range []string{
		"SELECT " + eventColumns + ", 0 FROM events WHERE subject = ?1 AND subject <> ''",
		sessionCallEvents,
	} {
		err := c.Query(query, func(r *Row) error {
			if err := events.read(r); err != nil {
				return err
			}
			return each(&events.event, r.Bool(eventColumnCount))
		}, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// RunCalls counts the proposals of a run, including refused ones.
func (s *Calls) RunCalls(ctx context.Context, p access.Principal, run string) (calls int, err error) {
	ways := ofRun("", "?1")
	for i, way := range ways {
		ways[i] = "SELECT subject FROM events WHERE actor = ?2 AND code IN (?3, ?4) AND " + way
	}
	err = s.db.Read(ctx, func(c *Conn) error {
		_, err := c.QueryRow("SELECT count(DISTINCT subject) FROM ("+strings.Join(ways, " UNION ALL ")+")",
			func(r *Row) error { calls = int(r.Int64(0)); return nil }, run, p.String(), event.Proposed, event.Refused)
		return err
	})
	return calls, err
}

// Calls returns one page of the ids of a principal's calls, newest first.
func (s *Calls) Calls(ctx context.Context, f call.Filter) (ids []string, next string, err error) {
	query, args := callsQuery(f)
	err = s.db.Read(ctx, func(c *Conn) error {
		return c.Query(query, func(r *Row) error {
			ids = append(ids, r.Text(0))
			return nil
		}, args...)
	})
	if len(ids) > f.PageSize {
		ids = ids[:f.PageSize]
		next = ids[f.PageSize-1]
	}
	return ids, next, err
}

// callsQuery reads one call more than a page. Each combination reads backwards from the end of an
// index; none sorts.
func callsQuery(f call.Filter) (query string, args []any) {
	where := whereClause{order: "proposal_id"}
	whereRunsOf(&where, f.Principal)
	whereRunsOf(&where, f.Of)
	if f.Run != "" {
		const proposed = "SELECT subject FROM events WHERE code = '" + string(event.Proposed) + "' AND "
		ways := ofRun("", "?")
		where.add("proposal_id IN ("+proposed+ways[0]+" UNION ALL "+proposed+ways[1]+")", f.Run, f.Run)
	}
	if f.PageToken != "" {
		where.add("proposal_id < ?", f.PageToken)
	}
	return "SELECT proposal_id FROM calls" + where.sql(f.PageSize+1), where.args
}

// mostSessions is the maximum number of sessions on a page.
const mostSessions = 500

// Sessions returns one page of sessions, newest first. In Past.Did, only the number of calls
// and LastAt are set.
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

// sessionTotals selects the number of calls in runs, the number of calls without a run, and the
// time of the last event of the newest call.
var sessionTotals = callsOfRun("1") + ", " + callsOfRun("0") + `,
 (SELECT max(e.at) FROM events e WHERE e.subject <> '' AND e.subject = (SELECT max(
  coalesce((SELECT max(s.proposal_id) FROM session_calls s WHERE s.session = sessions.id), ''),
  coalesce((SELECT max(r.proposal_id) FROM newest_calls r WHERE r.session = sessions.id), ''))))`

// callsOfRun counts the calls of a session that belong ("1") or do not belong ("0") to a run of
// the gateway.
func callsOfRun(is string) string {
	return `(SELECT count(*) FROM session_calls s WHERE s.session = sessions.id AND s.of_run = ` + is + `) +
 (SELECT count(*) FROM newest_calls r WHERE r.session = sessions.id AND r.of_run = ` + is + `)`
}

// EndSession ends a session, unless it has already ended.
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
