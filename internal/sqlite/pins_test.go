package sqlite_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/policyadmin"
	"palyra/internal/sqlite/sqlitetest"
)

func TestPins(t *testing.T) {
	db := sqlitetest.Open(t)
	want := func(list ...policyadmin.Pin) {
		t.Helper()
		got := must.Get(db.Pins(t.Context()))(t)
		if diff := cmp.Diff(list, got, cmpopts.IgnoreFields(policyadmin.Pin{}, "At"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("pins (-want +got):\n%s", diff)
		}
		for _, p := range got {
			if p.At.IsZero() {
				t.Errorf("%s has no time", p.Tool)
			}
		}
	}
	want()
	b := policyadmin.Pin{Tool: "b", Digest: "sha256:1", Definition: []byte(`{"name":"b"}`)}
	a := policyadmin.Pin{Tool: "a", Digest: "sha256:2", Definition: []byte(`{"name":"a"}`)}
	before := db.Head().Seq
	must.Do(t, db.PutPins(t.Context(), []policyadmin.Pin{b, a}, event.Draft{Code: event.ToolPinned, Actor: "service:palyrad", Subject: "a", Payload: []byte(`{}`)}))
	want(a, b)
	if db.Head().Seq != before+1 {
		t.Errorf("%d events were appended, want 1", db.Head().Seq-before)
	}
	a.Digest, a.Definition, a.Refused = "sha256:3", []byte(`{"name":"a","title":"A"}`), "sha256:4"
	must.Do(t, db.PutPins(t.Context(), []policyadmin.Pin{a}))
	want(a, b)
	// An event that cannot be appended takes its pins with it.
	lost := policyadmin.Pin{Tool: "c", Digest: "sha256:5", Definition: []byte(`{}`)}
	if err := db.PutPins(t.Context(), []policyadmin.Pin{lost}, event.Draft{Code: "PAL-?", Payload: []byte(`not JSON`)}); err == nil {
		t.Fatal("an event that is no JSON was appended")
	}
	want(a, b)
}
