package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// TestUnaskedCallsAreBounded: the store keeps the unapproved calls of the last days only, and
// only slightly more of them than it counts.
func TestUnaskedCallsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := sqlitetest.OpenAt(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{Now: func() time.Time { return now }})
	a := sqlite.NewApprovals(db)
	unit := 0
	run := func(calls int) {
		unit++
		drafts := make([]event.Draft, calls)
		for i := range drafts {
			drafts[i] = event.Draft{
				Code: event.Decided, Actor: "agent:coder", Session: "s", Subject: fmt.Sprintf("p%d.%d", unit, i), Payload: []byte(`{}`),
				Unasked: &event.Unasked{RequestedBy: "agent:coder", OnBehalfOf: "user:alice", Tool: "fs.read", Subject: "x", CallDigest: "sha256:x"},
			}
		}
		must.Get(db.Commit(t.Context(), sqlite.Unit{Events: drafts}))(t)
		now = now.Add(time.Second)
	}
	counted := func(since time.Time) int64 {
		n := must.Get(a.Lately(t.Context(), approval.LatelyQuery{
			RequestedBy: access.Agent("coder"), OnBehalfOf: access.User("alice"), ComparedAs: "fs.read", Session: "s", Subject: "x", CallDigest: "sha256:x", Since: since,
		}))(t)
		if n.Unasked.All != n.Unasked.InSession || n.Unasked.All.Exact != n.Unasked.All.Tool || n.Asked != (approval.Counted{}) {
			t.Errorf("%+v", n)
		}
		return n.Unasked.All.Exact
	}
	rows := func() (n int64) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM unasked_calls", func(r *sqlite.Row) error { n = r.Int64(0); return nil })
		}))
		return n
	}
	run(5)
	now = now.Add(approval.LatelySpan)
	run(3)
	if got := counted(now.Add(-approval.LatelySpan)); got != 3 || rows() != 3 {
		t.Errorf("%d counted of %d, want 3", got, rows())
	}
	for range 26 {
		run(500)
	}
	if got := counted(now.Add(-approval.LatelySpan)); got != approval.MostLately {
		t.Errorf("%d counted, want %d", got, approval.MostLately)
	}
	if n := rows(); n < approval.MostLately || n > approval.MostLately+2000 {
		t.Errorf("%d rows are kept of 13003", n)
	}
}
