package sqlite_test

import (
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/callrecord"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/session"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

var coderKey = session.Key{Principal: coder, Device: "d", Client: session.API}

// member is a call of a session; each session of these tests has a letter.
func member(id string, call string, ofRun bool) *session.Member {
	return &session.Member{
		Session: id, Proposal: call, OfRun: ofRun,
		New: &session.Row{ID: id, Key: coderKey, OnBehalfOf: access.User("alice"), StartedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

// newest is the newest session of a key with what its calls did.
func newest(t *testing.T, calls *sqlite.Calls, k session.Key) (session.Past, bool, error) {
	t.Helper()
	var facts callrecord.Facts
	past, found, err := calls.NewestSession(t.Context(), k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}

// judged are the events of a call up to its decision.
func judged(t *testing.T, id string, allowed bool, p callrecord.Proposed, facts tool.Facts, maySend int64) []event.Draft {
	t.Helper()
	evaluated := map[string]any{"request": map[string]any{"facts": facts}, "may_send": maySend}
	return []event.Draft{
		callEvent(t, event.Proposed, id, id, p), callEvent(t, event.Evaluated, id, id, evaluated),
		callEvent(t, event.Evaluated, id, id, evaluated), callEvent(t, event.Decided, id, id, decision.Record{ProposalID: id, Allowed: allowed}),
	}
}

// TestErasureGivesNothingBack: a call whose payloads were erased counts as one
// that was let through, and that read.
func TestErasureGivesNothingBack(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	record(t, calls, toolcall.Entry{Member: member("A", "p1", false), Drafts: judged(t, "p1", true, callrecord.Proposed{Tool: "http.fetch", OpenWorld: true}, tool.Facts{}, 0)})
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = NULL, salt = NULL WHERE subject = 'p1'"))
	if got, _, err := newest(t, calls, coderKey); err != nil || got.Facts.CallsInRun != 1 || !got.Facts.Tainted {
		t.Errorf("%+v, %v", got.Facts, err)
	}
}
