// Package policyadmintest has the conformance suite of stores of policy sets.
package policyadmintest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"

	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// Fixture is a store, and its journal.
type Fixture struct {
	policyadmin.Store
	// Events counts the events with a code.
	Events func(t *testing.T, code event.Code) int
	// Append adds an event.
	Append func(t *testing.T, d event.Draft)
}

// RunStore is the conformance suite of policyadmin.Store.
func RunStore(t *testing.T, newStore func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Fixture){
		"a set comes back": setComesBack, "a snapshot gets its inputs once": inputsOnce, "versions are listed and found": versions,
		"an activation ends with the next set": activations, "pins replace each other": pins, "ceilings replace each other": ceilings, "a decision leads to its proposal": proposals,
	} {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// Journaled returns a Fixture for a store with a journal.
func Journaled(s policyadmin.Store, events func(context.Context, journal.Filter) ([]journal.Event, error), appendTo func(context.Context, event.Draft) error) Fixture {
	return Fixture{
		Store: s,
		Events: func(t *testing.T, code event.Code) int {
			t.Helper()
			list := must.Get(events(t.Context(), journal.Filter{Code: string(code)}))(t)
			return len(list)
		},
		Append: func(t *testing.T, d event.Draft) {
			t.Helper()
			must.Do(t, appendTo(t.Context(), d))
		},
	}
}

func draft(code event.Code) event.Draft {
	return event.Draft{Code: code, Actor: "service:palyrad", Payload: json.RawMessage(`{}`)}
}

// unwritable is an event that every journal rejects.
var unwritable = event.Draft{Code: "PAL-?", Payload: []byte(`no JSON`)}

// Keep stores a set of a version.
func Keep(t *testing.T, s policyadmin.Store, version, by string, activated bool) policyadmin.KeptSet {
	t.Helper()
	snapshot := []byte(`{"version":"` + version + `"}`)
	p := policyadmin.KeptSet{
		Version: version, Sources: []byte(`["` + version + `"]`), SnapshotDigest: canonical.Digest(snapshot), Snapshot: snapshot,
		Inputs: []byte(`{"of":"` + version + `"}`), Policies: 7, LoadedBy: by, Activated: activated,
	}
	must.Do(t, s.PutPolicySet(t.Context(), p, draft(event.PolicyLoaded)))
	return p
}

// WantActivated checks which version is activated, "" for none.
func WantActivated(t *testing.T, s policyadmin.Store, version string) {
	t.Helper()
	v, found, err := s.ActivatedPolicy(t.Context())
	if err != nil || found != (version != "") || v.Version != version {
		t.Errorf("activated is %q, want %q: %v", v.Version, version, err)
	}
}

func setComesBack(t *testing.T, s Fixture) {
	for i := range 3 {
		p := Keep(t, s, fmt.Sprintf("sha256:v%d", i%2), "user:a", false) // the first version is put in force again
		if got, err := s.SnapshotInputs(t.Context(), p.SnapshotDigest); err != nil || string(got) != string(p.Inputs) {
			t.Errorf("inputs of %s: %s, %v", p.Version, got, err)
		}
	}
	if list, err := s.PolicyVersions(t.Context(), 0, 10); err != nil || len(list) != 2 {
		t.Errorf("%d versions, %v", len(list), err)
	}
	if n := s.Events(t, event.PolicyLoaded); n != 3 {
		t.Errorf("%d events", n)
	}
	if _, err := s.SnapshotInputs(t.Context(), "sha256:none"); reason.Of(err) != reason.NotFound {
		t.Errorf("an unknown digest: %v", err)
	}
}

// A snapshot stored without its inputs gets them when its set is stored again, and has none
// until then.
func inputsOnce(t *testing.T, s Fixture) {
	p := policyadmin.KeptSet{Version: "sha256:v", Sources: []byte(`[]`), SnapshotDigest: "sha256:s", Snapshot: []byte(`{}`)}
	for _, inputs := range []string{"", "{}", "other"} {
		if p.Inputs = []byte(inputs); inputs == "" {
			p.Inputs = nil
		}
		must.Do(t, s.PutPolicySet(t.Context(), p, draft(event.PolicyLoaded)))
		want := inputs
		if inputs == "other" {
			want = "{}" // the stored value is unchanged
		}
		if got, err := s.SnapshotInputs(t.Context(), "sha256:s"); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("inputs %q, want %q: %v", got, want, err)
		}
	}
}

func versions(t *testing.T, s Fixture) {
	for _, v := range []string{"sha256:aa1", "sha256:ab2", "sha256:ac3", "sha256:aa1"} {
		Keep(t, s, v, "user:"+v, false)
	}
	var names []string
	var before int64
	for {
		page := must.Get(s.PolicyVersions(t.Context(), before, 2))(t)
		for _, v := range page {
			names = append(names, v.Version)
			if v.LoadedBy != "user:"+v.Version || v.Policies != 7 || v.At.IsZero() || string(v.Sources) != `["`+v.Version+`"]` {
				t.Errorf("%+v", v)
			}
		}
		if len(page) < 2 {
			break
		}
		before = page[len(page)-1].Position
	}
	if fmt.Sprint(names) != "[sha256:ac3 sha256:ab2 sha256:aa1]" {
		t.Errorf("versions %v", names)
	}
	for given, want := range map[string]reason.Code{"sha256:ab": "", "ab2": "", "sha256:a": reason.InvalidInput, "x": reason.NotFound, "%": reason.NotFound} {
		v, err := s.PolicyVersion(t.Context(), given)
		if (err == nil) != (want == "") || err != nil && reason.Of(err) != want || err == nil && v.Version != "sha256:ab2" {
			t.Errorf("%s: %s, %v", given, v.Version, err)
		}
	}
}

// wantLast checks which version was put in force last.
func wantLast(t *testing.T, s policyadmin.Store, version string) {
	t.Helper()
	v, found, err := s.LastPolicy(t.Context())
	if err != nil || found != (version != "") || v.Version != version {
		t.Errorf("%q was in force last (%v), want %q", v.Version, err, version)
	}
}

func activations(t *testing.T, s Fixture) {
	WantActivated(t, s, "")
	wantLast(t, s, "")
	Keep(t, s, "sha256:a", "user:a", false)
	WantActivated(t, s, "")
	Keep(t, s, "sha256:b", "user:a", true)
	WantActivated(t, s, "sha256:b")
	wantLast(t, s, "sha256:b")
	Keep(t, s, "sha256:a", "user:a", true)
	WantActivated(t, s, "sha256:a")
	wantLast(t, s, "sha256:a")
	Keep(t, s, "sha256:c", "user:a", false)
	WantActivated(t, s, "")
	wantLast(t, s, "sha256:c")
	Keep(t, s, "sha256:a", "user:a", true)
	must.Do(t, s.ResetPolicy(t.Context(), draft(event.PolicyReset)))
	WantActivated(t, s, "")
	wantLast(t, s, "")
	if n := s.Events(t, event.PolicyReset); n != 1 {
		t.Errorf("%d events", n)
	}
	// A change whose event cannot be journaled is not made.
	p := policyadmin.KeptSet{Version: "sha256:d", Sources: []byte(`[]`), SnapshotDigest: "sha256:s", Snapshot: []byte(`{}`), Activated: true}
	if err := s.PutPolicySet(t.Context(), p, unwritable); err == nil {
		t.Error("an event that is no JSON was appended")
	}
	WantActivated(t, s, "")
	wantLast(t, s, "")
}

func pins(t *testing.T, s Fixture) {
	want := func(list ...policyadmin.Pin) {
		t.Helper()
		got := must.Get(s.Pins(t.Context()))(t)
		if diff := cmp.Diff(list, got, cmpopts.IgnoreFields(policyadmin.Pin{}, "At"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("pins (-want +got):\n%s", diff)
		}
		for _, p := range got {
			if p.At.IsZero() {
				t.Errorf("%s has no time", p.Tool)
			}
		}
	}
	put := func(events []event.Draft, pins ...policyadmin.Pin) error {
		return s.PutPins(t.Context(), pins, events...)
	}
	want()
	b := policyadmin.Pin{Tool: "b", Digest: "sha256:1", Definition: []byte(`{"name":"b"}`)}
	a := policyadmin.Pin{Tool: "a", Digest: "sha256:2", Definition: []byte(`{"name":"a"}`)}
	must.Do(t, put([]event.Draft{draft(event.ToolPinned)}, b, a))
	want(a, b)
	if n := s.Events(t, event.ToolPinned); n != 1 {
		t.Errorf("%d events were appended, want 1", n)
	}
	a.Digest, a.Definition, a.Refused = "sha256:3", []byte(`{"name":"a","title":"A"}`), "sha256:4"
	must.Do(t, put(nil, a))
	want(a, b)
	// Pins are not stored if their event cannot be appended.
	if err := put([]event.Draft{unwritable}, policyadmin.Pin{Tool: "c", Digest: "sha256:5", Definition: []byte(`{}`)}); err == nil {
		t.Fatal("an event that is no JSON was appended")
	}
	want(a, b)
}

func proposals(t *testing.T, s Fixture) {
	id := ulid.Make()
	for _, d := range []event.Draft{
		{Code: event.Decided, Subject: "other", Payload: json.RawMessage(`{"decision_id":"01JZ8Q4T2M0000000000000000"}`)},
		{Code: event.Evaluated, Subject: "wrong code", Payload: json.RawMessage(`{"decision_id":"` + id.String() + `"}`)},
		{Code: event.Decided, Subject: "it", Payload: json.RawMessage(`{"decision_id":"` + id.String() + `"}`)},
	} {
		d.Actor = "user:a"
		s.Append(t, d)
	}
	at := id.Timestamp()
	for _, c := range []struct {
		id     string
		before time.Time
		want   string
	}{
		{id.String(), at.Add(-time.Minute), "it"}, {id.String(), at.Add(time.Hour), ""}, {ulid.Make().String(), at.Add(-time.Minute), ""},
	} {
		proposal, found, err := s.ProposalOf(t.Context(), c.id, c.before)
		if err != nil || proposal != c.want || found != (c.want != "") {
			t.Errorf("%s: %q, %v, %v", c.id, proposal, found, err)
		}
	}
}

func ceilings(t *testing.T, s Fixture) {
	bob := policyadmin.Ceiling{Name: "user:bob", By: access.User("ada"), Reason: "gone"}
	ops := policyadmin.Ceiling{Name: "channel:ops", Allowed: true, By: access.User("ada")}
	for _, c := range []*policyadmin.Ceiling{&bob, &ops} {
		put := must.Get(s.PutCeiling(t.Context(), *c, draft(event.CeilingSet)))(t)
		if c.At = put.At; c.At.IsZero() || put != *c {
			t.Errorf("kept %+v", put)
		}
	}
	bob.Allowed, bob.Reason = true, ""
	bob.At = must.Get(s.PutCeiling(t.Context(), bob, draft(event.CeilingSet)))(t).At
	if diff := cmp.Diff([]policyadmin.Ceiling{ops, bob}, must.Get(s.Ceilings(t.Context()))(t)); diff != "" {
		t.Errorf("ceilings (-want +got):\n%s", diff)
	}
	if n := s.Events(t, event.CeilingSet); n != 3 {
		t.Errorf("%d events", n)
	}
}
