package sqlite_test

import (
	"encoding/json"
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestApprovals(t *testing.T) {
	t.Parallel()
	approvaltest.RunStore(t, func(t *testing.T) approvaltest.Fixture {
		db := sqlitetest.Open(t)
		return approvaltest.Fixture{Store: sqlite.NewApprovals(db), Events: func() []event.Code { return journaled(t, db) }}
	})
}

// journaled returns the codes of the journal in order.
func journaled(t *testing.T, db *sqlite.DB) []event.Code {
	t.Helper()
	var codes []event.Code
	must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT code FROM events ORDER BY seq", func(r *sqlite.Row) error {
			codes = append(codes, event.Code(r.Text(0)))
			return nil
		})
	}))
	return codes
}

// An approval is requested, answered, and consumed together with the decided event on the real
// store. It cannot be consumed again after a restart.
func TestDeskOnSQLite(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	store := sqlite.NewApprovals(db)
	judge := &approvaltest.Judge{Need: 1}
	d := approvaltest.Open(t, store, judge, approval.Limits{})
	stop := approvaltest.Start(t, d)
	alice := approvaltest.Caller("alice")

	used := approvaltest.Resolve(d, approvaltest.Ask(t))
	rec := <-used.Records
	must.Get(d.Votes.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session}))(t)
	answer := (<-used.Done).Answer
	decided := event.Draft{Code: event.Decided, Actor: "agent:builder", Subject: rec.ProposalID, Payload: json.RawMessage(`{}`)}
	must.Do(t, d.Requests.Consume(t.Context(), answer, decided))
	if err := d.Requests.Consume(t.Context(), answer, decided); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("the second use: %v", err)
	}
	pending := approvaltest.Resolve(d, approvaltest.Ask(t, func(a *approval.Ask) { a.Plan.Binding.Cwd = "default:sub" }))
	left := <-pending.Records
	stop()
	<-pending.Done

	d = approvaltest.Open(t, store, judge, approval.Limits{})
	approvaltest.Start(t, d)
	if err := d.Requests.Consume(t.Context(), answer, decided); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("a use after the restart: %v", err)
	}
	grants, err := d.Grants.Find(t.Context(), approvaltest.Ask(t).Query())
	if err != nil || len(grants) != 1 {
		t.Errorf("%d grants after the restart, %v", len(grants), err)
	}
	again, err := d.Records.Get(t.Context(), left.ID)
	if err != nil || again.State != approval.Pending || !again.RunGone || len(again.Prompt.Differs) != 1 {
		t.Errorf("the pending record after the restart: %+v, %v", again, err)
	}
	if got := requestsKept(t, db); !slices.Equal(got, []string{left.ID}) {
		t.Errorf("the requests of %v are stored, want that of the pending %s", got, left.ID)
	}
	want := []event.Code{event.Asked, event.Voted, event.Answered, event.GrantMinted, event.Consumed, event.Decided, event.Asked}
	if got := journaled(t, db); !slices.Equal(got, want) {
		t.Errorf("journal %v, want %v", got, want)
	}
}

// requestsKept returns the ids of the records whose request column is not NULL.
func requestsKept(t *testing.T, db *sqlite.DB) []string {
	t.Helper()
	var ids []string
	must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT id FROM approvals WHERE request IS NOT NULL ORDER BY id", func(r *sqlite.Row) error {
			ids = append(ids, r.Text(0))
			return nil
		})
	}))
	return ids
}
