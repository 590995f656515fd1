package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// filterStore returns a store with 200 events.
func filterStore(t *testing.T) (*sqlite.DB, []journal.Event) {
	t.Helper()
	return filterStoreOf(t, 200)
}

// filterStoreOf returns a store with the given number of events, one second apart: two sessions
// with three runs each, every tenth event without a run.
func filterStoreOf(t *testing.T, events int) (*sqlite.DB, []journal.Event) {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := sqlitetest.OpenAt(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{Now: func() time.Time { return now }})
	codes := []event.Code{event.Proposed, event.Evaluated, event.Asked, event.Checkpoint, event.Thawed}
	var all []journal.Event
	for n := range events {
		now = now.Add(time.Second)
		d := draft(n)
		d.Code, d.Session, d.Run, d.Subject = codes[n%5], fmt.Sprintf("s%d", n%2), fmt.Sprintf("r%d", n%6), fmt.Sprintf("p%d", n/4)
		if n%10 == 0 {
			d.Run = ""
		}
		if n%7 == 0 {
			d.Actor = "user:alice"
		}
		all = append(all, mustAppend(t, db, d))
	}
	return db, all
}

func TestFilters(t *testing.T) {
	t.Parallel()
	db, all := filterStore(t)
	at := all[100].At
	for _, f := range []journal.Filter{
		{},
		{Session: "s0"}, {Session: "s1", After: 100}, {Session: "none"},
		{Run: "r3"}, {Run: "r3", Session: "s1"}, {Run: "r3", Session: "s0"},
		{Subject: "p7"}, {Subject: "p7", Code: "PAL-D"},
		{Code: "PAL-A"}, {Code: "PAL-J102"}, {Code: "PAL-J102", Newest: true, Limit: 1}, {Code: "PAL"},
		{Code: "PAL-P103", Since: at, Newest: true, Limit: 20}, {Code: "PAL-P107"},
		{Actor: "user:alice"}, {Actor: "user:alice", Session: "s1"},
		{Since: at}, {Until: at}, {Since: at, Until: at.Add(time.Minute)}, {Since: at.Add(time.Hour)}, {Until: all[0].At},
		{After: 190}, {After: 10, UpTo: 20}, {UpTo: 5}, {After: 200},
		{Limit: 7}, {Limit: 7, Newest: true}, {Session: "s1", Newest: true, Limit: 5},
	} {
		got, err := db.Events(t.Context(), f)
		if err != nil {
			t.Errorf("%+v: %v", f, err)
			continue
		}
		want := expect(all, f)
		if len(got) != len(want) {
			t.Errorf("%+v: %d events, want %d", f, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i].Hash != want[i].Hash || string(got[i].Payload) != string(want[i].Payload) || got[i].CheckSelf() != nil {
				t.Errorf("%+v: place %d holds event %d, want %d", f, i, got[i].Seq, want[i].Seq)
				break
			}
		}
	}
}

// expect applies a filter in memory.
func expect(all []journal.Event, f journal.Filter) (want []journal.Event) {
	limit := f.Limit
	if limit == 0 {
		limit = journal.DefaultLimit
	}
	for i := range all {
		e := all[i]
		if f.Newest {
			e = all[len(all)-1-i]
		}
		if matches(e, f) && len(want) < limit {
			want = append(want, e)
		}
	}
	return want
}

func matches(e journal.Event, f journal.Filter) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Session, e.Session) && is(f.Run, e.Run) && is(f.Subject, e.Subject) && is(f.Actor, e.Actor) &&
		len(e.Code) >= len(f.Code) && string(e.Code[:len(f.Code)]) == f.Code &&
		e.Seq > f.After && (f.UpTo == 0 || e.Seq <= f.UpTo) &&
		(f.Since.IsZero() || !e.At.Before(f.Since)) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// A call without a run is its own run. Its events are found by that run, together with the
// events of runs that have the id as a subject, or as the run of another subject.
func TestFiltersOfCallsWithoutRun(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	var all []journal.Event
	for n, d := range []struct{ session, run, subject string }{
		{"s0", "c1", "c1"}, {"s0", "c1", "c1"}, {"s1", "c2", "c2"}, {"s0", "r", "c1"}, {"s0", "c1", "other"}, {"s1", "c1", "c1"},
		{"s0", "", "c1"}, {"s0", "c1", ""}, {"", "c1", "c1"}, {"s0", "r", "r"}, {"s0", "r", "c3"}, {"s0", "c1", "c1"},
	} {
		e := draft(n)
		e.Code, e.Session, e.Run, e.Subject = event.Proposed, d.session, d.run, d.subject
		all = append(all, mustAppend(t, db, e))
	}
	for _, f := range []journal.Filter{
		{Run: "c1"}, {Run: "c2"}, {Run: "r"}, {Run: "none"}, {Run: "c1", Newest: true}, {Run: "c1", Newest: true, Limit: 3}, {Run: "c1", Limit: 2},
		{Run: "c1", Session: "s0"}, {Run: "c1", Session: "s1"}, {Session: "s0"}, {Session: "s1"}, {Run: "c1", Subject: "c1"}, {Run: "c1", Subject: "other"},
		{Subject: "c1"}, {Run: "c1", After: 2, UpTo: 6}, {Run: "c1", Code: string(all[0].Code)}, {Session: "s0", Newest: true, Limit: 4},
	} {
		got, want := must.Get(db.Events(t.Context(), f))(t), expect(all, f)
		if !slices.EqualFunc(got, want, func(a, b journal.Event) bool { return a.Seq == b.Seq && a.Hash == b.Hash }) {
			t.Errorf("%+v: %d events, want %d", f, len(got), len(want))
		}
	}
	for run, want := range map[string]int{"c1": 3, "c2": 1, "r": 3, "none": 0} { // proposals, each once
		if n := must.Get(sqlite.NewCalls(db).RunCalls(t.Context(), access.User("nobody"), run))(t); n != 0 {
			t.Errorf("%s: %d calls of nobody", run, n)
		}
		var by access.Principal
		must.Do(t, by.UnmarshalText([]byte(all[0].Actor)))
		if n := must.Get(sqlite.NewCalls(db).RunCalls(t.Context(), by, run))(t); n != want {
			t.Errorf("%s: %d calls, want %d", run, n, want)
		}
	}
}

// TestFiltersUseIndexes: no lookup by id reads the whole journal.
func TestFiltersUseIndexes(t *testing.T) {
	t.Parallel()
	db, _ := filterStore(t)
	for _, f := range []journal.Filter{
		{Session: "s0"}, {Run: "r1"}, {Subject: "p3"}, {Code: "PAL-J102", Newest: true, Limit: 1},
		{Session: "s0", After: 50, Limit: 10},
	} {
		plan := must.Get(sqlite.QueryPlan(db, f))(t)
		for _, step := range plan {
			if step == "SCAN events" {
				t.Errorf("%+v reads the whole journal: %q", f, plan)
			}
		}
	}
	// A page of a run is read from two indexes, without sorting.
	for _, f := range []journal.Filter{{Run: "r1"}, {Run: "r1", Newest: true, Limit: 1}, {Run: "r1", After: 50}} {
		plan := strings.Join(must.Get(sqlite.QueryPlan(db, f))(t), "; ")
		if !strings.Contains(plan, "INDEX events_run (run=?") || !strings.Contains(plan, "INDEX events_subject (subject=?") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%+v: %s", f, plan)
		}
	}
	// The queries of gatewaychange at each start use the codes, and do not read all later events.
	for _, code := range []event.Code{event.GatewayChange, event.PolicyReset, event.Thawed} {
		f := journal.Filter{Code: string(code), Since: time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC), Newest: true, Limit: 20}
		if plan := must.Get(sqlite.QueryPlan(db, f))(t); len(plan) != 1 || plan[0] != "SEARCH events USING INDEX events_gateway (code=? AND seq>?)" {
			t.Errorf("%s: %q", code, plan)
		}
	}
	// The query for a restore also uses the index.
	if plan := must.Get(sqlite.QueryPlan(db, journal.Filter{Code: string(event.Restored), Newest: true, Limit: 1}))(t); len(plan) != 1 || plan[0] != "SCAN events USING INDEX events_restored" {
		t.Errorf("restores: %q", plan)
	}
	// Control: a filter without an index scans the table.
	if plan, err := sqlite.QueryPlan(db, journal.Filter{Actor: "user:alice"}); err != nil || len(plan) != 1 || plan[0] != "SCAN events" {
		t.Errorf("the control's plan is %q, %v", plan, err)
	}
}
