package sqlite_test

import (
	"reflect"
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/decision"
	"palyra/internal/event"
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

// judged are the events of a call up to its decision.
func judged(t *testing.T, id string, allowed bool, p toolcall.ProposedPayload, facts tool.Facts, maySend int64) []event.Draft {
	t.Helper()
	evaluated := map[string]any{"request": map[string]any{"facts": facts}, "may_send": maySend}
	return []event.Draft{
		callEvent(t, event.Proposed, id, id, p), callEvent(t, event.Evaluated, id, id, evaluated),
		callEvent(t, event.Evaluated, id, id, evaluated), callEvent(t, event.Decided, id, id, decision.Record{ProposalID: id, Allowed: allowed}),
	}
}

func TestSessionsAreFolded(t *testing.T) {
	read, fetch, run := toolcall.ProposedPayload{Tool: "fs.read"}, toolcall.ProposedPayload{Tool: "http.fetch", OpenWorld: true}, toolcall.ProposedPayload{Tool: "process.run"}
	gate := func(id string) event.Draft {
		return callEvent(t, event.Evaluated, id, id, map[string]any{"may_send": 5, "request": map[string]any{
			"commit": map[string]any{}, "facts": tool.Facts{Secrets: []string{"g"}, EgressMode: "none"},
		}})
	}
	ended := func(id, mode string, seen ...tool.Connection) event.Draft {
		return attested(t, id, id, tool.Egress{Mode: mode, Observed: seen})
	}
	for name, c := range map[string]struct {
		events [][]event.Draft
		want   tool.SessionFacts
	}{
		"a call let through": {[][]event.Draft{judged(t, "p1", true, read, tool.Facts{}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"fs.read"}}},
		"a denied call":      {[][]event.Draft{judged(t, "p1", false, fetch, tool.Facts{Secrets: []string{"s"}}, 9)}, tool.SessionFacts{CallsInRun: 1}},
		"a refused call":     {[][]event.Draft{{refused(t, "p1", "", "made.up")}}, tool.SessionFacts{CallsInRun: 1}},
		"open world":         {[][]event.Draft{judged(t, "p1", true, fetch, tool.Facts{}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"http.fetch"}, Tainted: true}},
		"open network":       {[][]event.Draft{judged(t, "p1", true, run, tool.Facts{EgressMode: "none"}, 0)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true}},
		"no end":             {[][]event.Draft{judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 7)}, tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, BytesOut: 7}},
		"an end": {[][]event.Draft{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 9), gate("p1"), ended("p1", "strict", tool.Connection{BytesOut: 3}, tool.Connection{BytesOut: 1}))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, BytesOut: 4}},
		"something came in": {[][]event.Draft{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "strict"}, 9), ended("p1", "strict", tool.Connection{}, tool.Connection{BytesIn: 1}))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true}},
		"nobody saw": {[][]event.Draft{append(judged(t, "p1", true, run, tool.Facts{EgressMode: "preflight"}, 9), ended("p1", "preflight"))},
			tool.SessionFacts{CallsInRun: 1, ToolsUsed: []string{"process.run"}, Tainted: true, BytesOut: 9}},
		"secrets": {[][]event.Draft{judged(t, "p1", true, read, tool.Facts{Secrets: []string{"b", "a"}}, 0), judged(t, "p2", true, read, tool.Facts{Secrets: []string{"b"}}, 0)},
			tool.SessionFacts{CallsInRun: 2, ToolsUsed: []string{"fs.read"}, SecretsRead: []string{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := sqlite.NewCalls(sqlitetest.Open(t))
			for _, drafts := range c.events {
				record(t, calls, toolcall.Entry{Drafts: drafts, Member: member("A", drafts[0].Subject, false)})
			}
			record(t, calls, toolcall.Entry{Drafts: judged(t, "other", true, fetch, tool.Facts{}, 0)}) // of no session
			got, found, err := calls.NewestSession(t.Context(), coderKey)
			if err != nil || !found || got.ID != "A" || got.Key != coderKey || got.OnBehalfOf != access.User("alice") || !got.EndedAt.IsZero() {
				t.Fatalf("%+v, %t, %v", got, found, err)
			}
			if !reflect.DeepEqual(got.Facts, c.want) {
				t.Errorf("%+v, want %+v", got.Facts, c.want)
			}
			if got.LastAt.IsZero() || got.LastAt.Before(got.StartedAt) {
				t.Errorf("last at %s", got.LastAt)
			}
		})
	}
}

// TestErasureGivesNothingBack: a call whose payloads were erased counts as one
// that was let through, and that read.
func TestErasureGivesNothingBack(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	record(t, calls, toolcall.Entry{Member: member("A", "p1", false), Drafts: judged(t, "p1", true, toolcall.ProposedPayload{Tool: "http.fetch", OpenWorld: true}, tool.Facts{}, 0)})
	if err := sqlite.Exec(db, "UPDATE events SET payload = NULL, salt = NULL WHERE subject = 'p1'"); err != nil {
		t.Fatal(err)
	}
	if got, _, err := calls.NewestSession(t.Context(), coderKey); err != nil || got.Facts.CallsInRun != 1 || !got.Facts.Tainted {
		t.Errorf("%+v, %v", got.Facts, err)
	}
}

// TestNewestSession: of several sessions of a caller, the one that began last
// goes on, and calls of the gateway's runs have a count of their own.
func TestNewestSession(t *testing.T) {
	calls := sqlite.NewCalls(sqlitetest.Open(t))
	if _, found, err := calls.NewestSession(t.Context(), coderKey); found || err != nil {
		t.Fatalf("%t, %v", found, err)
	}
	for i, id := range []string{"A", "B", "B", "B"} {
		call := string(rune('a' + i))
		record(t, calls, toolcall.Entry{Drafts: []event.Draft{proposed(t, call, "run-1", "fs.read", false)}, Member: member(id, call, i == 3)})
	}
	got, found, err := calls.NewestSession(t.Context(), coderKey)
	if err != nil || !found || got.ID != "B" || got.Facts.CallsInRun != 2 || got.RunCalls != 1 {
		t.Errorf("%+v, %t, %v", got, found, err)
	}
	for _, other := range []session.Key{
		{Principal: access.Agent("other"), Device: "d", Client: session.API}, {Principal: coder, Device: "e", Client: session.API}, {Principal: coder, Device: "d", Client: "mcp"},
	} {
		if _, found, err := calls.NewestSession(t.Context(), other); found || err != nil {
			t.Errorf("%+v: %t, %v", other, found, err)
		}
	}
	for run, want := range map[string]int{"run-1": 4, "run-2": 0, "": 0} {
		if n, err := calls.RunCalls(t.Context(), coder, run); n != want || err != nil {
			t.Errorf("%q: %d, %v", run, n, err)
		}
	}
}
