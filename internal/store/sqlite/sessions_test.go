package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/decision"
	callrecord "palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

var coderKey = session.Key{Principal: coder, Device: "d", Client: session.API}

// member returns a call of a session; each session of these tests has a letter.
func member(id string, call string, ofRun bool) *session.Member {
	return &session.Member{
		Session: id, Proposal: call, OfRun: ofRun,
		New: &session.Row{ID: id, Key: coderKey, OnBehalfOf: access.User("alice"), StartedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

// newest returns the newest session of a key with the facts of its calls.
func newest(t *testing.T, calls *sqlite.Calls, k session.Key) (session.Past, bool, error) {
	t.Helper()
	var facts callrecord.Facts
	past, found, err := calls.NewestSession(t.Context(), k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}

// judged returns the events of a call up to its decision.
func judged(t *testing.T, id string, allowed bool, p callrecord.Proposed, facts tool.Facts, maySend int64) []event.Draft {
	t.Helper()
	evaluated := map[string]any{"request": map[string]any{"facts": facts}, "may_send": maySend}
	return []event.Draft{
		callEvent(t, event.Proposed, id, id, p), callEvent(t, event.Evaluated, id, id, evaluated),
		callEvent(t, event.Evaluated, id, id, evaluated), callEvent(t, event.Decided, id, id, decision.Record{ProposalID: id, Allowed: allowed}),
	}
}

// TestErasureRestoresNoBudget: a call whose payloads were erased still counts as a permitted call
// that read data.
func TestErasureRestoresNoBudget(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	record(t, calls, call.Entry{Member: member("A", "p1", false), Drafts: judged(t, "p1", true, callrecord.Proposed{Tool: "http.fetch", OpenWorld: true}, tool.Facts{}, 0)})
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = NULL, salt = NULL WHERE subject = 'p1'"))
	if got, _, err := newest(t, calls, coderKey); err != nil || got.Facts.CallsInRun != 1 || !got.Facts.Tainted {
		t.Errorf("%+v, %v", got.Facts, err)
	}
}

// Calls are found from their commit on, whether they are recent or were already moved, by page,
// to the indexed table.
func TestRecentCallsAreSettled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	calls := sqlite.NewCalls(db)
	const most = 64
	for n := 1; n <= 2*most+3; n++ {
		id := fmt.Sprintf("p%04d", n)
		entry := call.Entry{Member: member("A", id, n%2 == 0), Drafts: judged(t, id, true, callrecord.Proposed{Tool: "echo"}, tool.Facts{}, 0)}
		record(t, calls, entry)
		if n%10 == 0 { // a repeated call counts once, and a failed unit adds none
			record(t, calls, call.Entry{Member: member("A", "p0001", false), Drafts: []event.Draft{callEvent(t, event.Violated, id, id, struct{}{})}})
			failed := errors.New("refused")
			_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(*sqlite.Tx) error { return failed }})
			if !errors.Is(err, failed) {
				t.Fatal(err)
			}
		}
		if n == most+most/2 { // a start counts the existing ones
			must.Do(t, db.Close(context.Background()))
			db = sqlitetest.OpenAt(t, path, sqlite.Options{})
			calls = sqlite.NewCalls(db)
		}
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM session_calls", func(r *sqlite.Row) error {
				if settled := r.Int(0); settled > n || n-settled >= most {
					t.Errorf("of %d calls, %d are settled", n, settled)
				}
				return nil
			})
		}))
		if n%30 == 0 || n%most < 2 {
			assertCallsFound(t, calls, n)
		}
	}
}

// assertCallsFound checks that the calls p0001 to pn are found; those with an even number
// belong to runs.
func assertCallsFound(t *testing.T, calls *sqlite.Calls, n int) {
	t.Helper()
	alice := access.User("alice")
	for name, f := range map[string]call.Filter{
		"all": {}, "of the agent": {Principal: coder}, "of the user": {Of: alice}, "of both": {Of: alice, Principal: coder},
	} {
		f.PageSize = 7
		for last := n; last > 0; last -= 7 {
			ids, next, err := calls.Calls(t.Context(), f)
			if err != nil || len(ids) != min(7, last) || ids[0] != fmt.Sprintf("p%04d", last) || ids[len(ids)-1] != fmt.Sprintf("p%04d", max(last-6, 1)) {
				t.Fatalf("%s, %d calls, up to %d: %v, %v", name, n, last, ids, err)
			}
			f.PageToken = next
		}
	}
	if ids, _, err := calls.Calls(t.Context(), call.Filter{PageSize: 5, Principal: access.Agent("other")}); err != nil || len(ids) > 0 {
		t.Errorf("of another: %v, %v", ids, err)
	}
	page, _, err := calls.Sessions(t.Context(), session.Filter{})
	if err != nil || len(page) != 1 || page[0].RunCalls != n/2 || page[0].Facts.CallsInRun != n-n/2 || !page[0].LastAt.After(page[0].StartedAt) {
		t.Errorf("%d calls: %+v, %v", n, page, err)
	}
	events, ofRuns := 0, 0
	_, found, err := calls.NewestSession(t.Context(), coderKey, func(_ *journal.Event, ofRun bool) error {
		events++
		if ofRun {
			ofRuns++
		}
		return nil
	})
	if again := n / 10; err != nil || !found || events < 4*n+again || ofRuns < n/2*4 {
		t.Errorf("%d calls: %d events, %d of runs, %v", n, events, ofRuns, err)
	}
}

// The events of a session are read by indexes, with the few recent calls.
func TestSessionEventsScanNothing(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	for _, step := range must.Get(sqlite.Plan(db, sqlite.SessionCallEvents))(t) {
		if strings.HasPrefix(step, "SCAN ") && step != "SCAN r" {
			t.Error(step)
		}
	}
}
