package sqlite_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

const (
	lost  = "01JNA3Q0G0DEV1CE0000000001"
	other = "01JNA3Q0G0DEV1CE0000000002"
)

// deeds are events of two devices; what the lost one did has a subject that begins
// with "mine".
func deeds() []event.Draft {
	d := func(code event.Code, session, run, subject, payload string) event.Draft {
		return event.Draft{Code: code, Session: session, Run: run, Actor: "user:ada", Subject: subject, Payload: []byte(payload)}
	}
	return []event.Draft{
		d(event.Voted, other+".s", "", "mine vote", `{"vote":{"device":"`+lost+`"}}`),
		d(event.Voted, lost+".s", "", "a vote on its call", `{"vote":{"device":"`+other+`"}}`),
		d(event.GrantMinted, other+".s", "", "mine grant", `{"minted_by":[{"device":"`+other+`"},{"device":"`+lost+`"}]}`),
		d(event.Proposed, lost+".s", "", "mine call", `{}`),
		d(event.Decided, lost+".s", "", "mine call", `{}`),
		d(event.Proposed, lost+"0.s", "", "a call of a longer name", `{}`),
		d(event.Proposed, other+".s", "", "another's call", `{}`),
		d(event.Proposed, lost+".s", "named", "mine call of a named run", `{}`),
		d(event.RunStarted, lost+".r", "mine run", "mine run", `{}`),
		d(event.MemberAdded, "", "", "mine member", `{"by_device":"`+lost+`"}`),
		d(event.MemberAdded, "", "", "a member of before", `{}`),
		d(event.TokenMade, "", "", "another's token", `{"by_device":"`+other+`"}`),
		d(event.CeilingSet, "", "", "mine ceiling", `{"by_device":"`+lost+`"}`),
		d(event.PolicyLoaded, "", "", "policies of no device", `{}`),
		d(event.DeviceKeyReplaced, "", "", lost, `{"device_id":"`+lost+`"}`),
	}
}

var mine = []string{"mine ceiling", "mine member", "mine run", "mine call of a named run", "mine call", "mine grant", "mine vote"}

func actsOf(t *testing.T, db *sqlite.DB, device string, limit int) (subjects []string) {
	t.Helper()
	var before int64
	for {
		page := must.Get(db.DeviceActs(t.Context(), device, before, limit))(t)
		for _, e := range page {
			subjects, before = append(subjects, e.Subject), e.Seq
		}
		if len(page) < limit {
			return subjects
		}
	}
}

func TestDeviceActs(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Get(db.Append(t.Context(), deeds()...))(t)
	for _, limit := range []int{1, 2, 50} {
		if got := actsOf(t, db, lost, limit); !slices.Equal(got, mine) {
			t.Errorf("by %d: %q, want %q", limit, got, mine)
		}
	}
	if got := actsOf(t, db, "01JNA3Q0G0DEV1CE0000000009", 50); len(got) > 0 {
		t.Errorf("a device that did nothing: %q", got)
	}
}

// The store of a release before is read once, so that what a device did then is found,
// too; an event that was erased or is no JSON stops nothing.
func TestDeviceActsOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	var events []journal.Event
	var head journal.Head
	var edge journal.Edge
	drafts := append(deeds(), event.Draft{Code: event.Voted, Actor: "user:ada", Subject: "erased", Payload: []byte(`{"vote":{"device":"` + lost + `"}}`)})
	for _, d := range drafts {
		e := journal.Seal(head, d, time.Unix(1, 0), journal.NewNonce())
		edge.Append(e.Hash)
		head, events = e.Head(), append(events, e)
	}
	rows := `UPDATE events SET payload = NULL, salt = NULL WHERE subject = 'erased';
INSERT INTO session_runs (session, run) VALUES ('` + lost + `.s', 'named'), ('` + lost + `.r', 'mine run') ON CONFLICT DO NOTHING;`
	must.Do(t, sqlite.MakeOlder(path, 19, events, rows))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	want := slices.DeleteFunc(slices.Clone(mine), func(s string) bool { return s == "mine member" || s == "mine ceiling" }) // of which nobody kept the device
	if got := actsOf(t, db, lost, 50); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What another device did costs nothing: the queries go by indexes alone.
func TestDeviceActsScanNothing(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Get(db.Append(t.Context(), deeds()...))(t)
	plan := must.Get(sqlite.DeviceActsPlan(db))(t)
	t.Log(strings.Join(plan, "\n"))
	if len(plan) == 0 || slices.ContainsFunc(plan, func(step string) bool {
		return strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "subquery")
	}) {
		t.Errorf("the plan scans:\n%s", strings.Join(plan, "\n"))
	}
}
