package sqlite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
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

// A whole life on the real store: asked, answered, consumed together with the
// decided event, and not again after a restart.
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
	must.Get(d.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session}))(t)
	answer := (<-used.Done).Answer
	decided := event.Draft{Code: event.Decided, Actor: "agent:builder", Subject: rec.ProposalID, Payload: json.RawMessage(`{}`)}
	must.Do(t, d.Consume(t.Context(), answer, decided))
	if err := d.Consume(t.Context(), answer, decided); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("the second use: %v", err)
	}
	pending := approvaltest.Resolve(d, approvaltest.Ask(t, func(a *approval.Ask) { a.Plan.Binding.Cwd = "default:sub" }))
	left := <-pending.Records
	stop()
	<-pending.Done

	d = approvaltest.Open(t, store, judge, approval.Limits{})
	approvaltest.Start(t, d)
	if err := d.Consume(t.Context(), answer, decided); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("a use after the restart: %v", err)
	}
	grants, err := d.Grants(t.Context(), approvaltest.Ask(t).Query())
	if err != nil || len(grants) != 1 {
		t.Errorf("%d grants after the restart, %v", len(grants), err)
	}
	again, err := d.Get(t.Context(), left.ID)
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

// A store of an older palyrad kept requests for ever: the migration clears
// those of closed records.
func TestMigrationClearsClosedRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	var open []string
	must.Do(t, sqlite.MakeOld(path, 5, func(c *sqlite.Conn) error {
		var err error
		open, err = fillApprovals(c)
		return err
	}))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	if got := requestsKept(t, db); !slices.Equal(got, open) {
		t.Errorf("the requests of %v are stored, want %v", got, open)
	}
}

// fillApprovals stores a record of every state, each with its request, and
// returns the ids of those that are open.
func fillApprovals(c *sqlite.Conn) (open []string, err error) {
	for n, state := range approval.States {
		id := fmt.Sprintf("01JAAAAAAAAAAAAAAAAAA%05d", n)
		const insert = `INSERT INTO approvals (id, revision, state, version, subject_type, requested_by, on_behalf_of, tool, created_at, body, request)
			VALUES (?1, ?2, ?3, 1, 'tool', 'agent:a', 'user:b', 'fs.write', 1, ?4, ?5)`
		rec := approval.Record{ID: id, State: state, Revision: int64(n + 1), Version: 1, Prompt: approval.Prompt{Arguments: json.RawMessage(`{}`)},
			Binding: tool.Binding{Arguments: json.RawMessage(`{}`)}}
		body, err := approval.EncodeRecord(rec)
		if err := errors.Join(err, c.Query(insert, nil, id, n+1, state, body, []byte(`{"args":"plain"}`))); err != nil {
			return nil, err
		}
		if !state.Terminal() {
			open = append(open, id)
		}
	}
	return open, nil
}
