package sqlite

import (
	"fmt"

	"palyra/internal/approval"
	"palyra/internal/event"
	"palyra/internal/journal"
)

// cutEvery is how many calls are noted between two cuts at what is counted at most.
const cutEvery = 1000

// noteUnasked keeps that a call runs without people having been asked, for Lately, and
// forgets those like it that are not counted any more: the old ones each time, and now
// and then those beyond what is counted.
func (w *writer) noteUnasked(e *journal.Event, u *event.Unasked) error {
	if u == nil {
		return nil
	}
	c := Conn{c: w.conn}
	const these = "DELETE FROM unasked_calls WHERE requested_by = ?1 AND on_behalf_of = ?2 AND tool = ?3 AND at < "
	if err := c.Query(these+"?4", nil, u.RequestedBy, u.OnBehalfOf, u.Tool, e.At.Add(-approval.LatelySpan)); err != nil {
		return fmt.Errorf("forgetting old calls: %w", err)
	}
	if w.unasked++; w.unasked%cutEvery == 0 {
		const last = `(SELECT at FROM unasked_calls WHERE requested_by = ?1 AND on_behalf_of = ?2 AND tool = ?3 ORDER BY at DESC LIMIT 1 OFFSET ?4)`
		if err := c.Query(these+last, nil, u.RequestedBy, u.OnBehalfOf, u.Tool, approval.MostLately); err != nil {
			return fmt.Errorf("forgetting calls that are not counted: %w", err)
		}
	}
	return c.Query(`INSERT INTO unasked_calls (requested_by, on_behalf_of, tool, at, proposal_id, subject, call_digest, session)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING`,
		nil, u.RequestedBy, u.OnBehalfOf, u.Tool, e.At, e.Subject, u.Subject, u.CallDigest, e.Session)
}
