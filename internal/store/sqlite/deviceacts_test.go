package sqlite_test

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

const (
	lost  = "01JNA3Q0G0DEV1CE0000000001"
	other = "01JNA3Q0G0DEV1CE0000000002"
)

// deeds returns events of two devices; the subjects of the lost device's events start with
// "mine".
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

// TestDeviceActsOfAnOlderRelease: the store of an older release is read once, so that the acts of a
// device from that time are found. An event that was erased or is not JSON does not stop this.
// TestDeviceActsScanNothing: the acts of other devices cost nothing: the queries use only indexes.
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
