package sqlite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/canonical"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/must"
	"palyra/internal/policyadmin"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
)

func loaded() event.Draft {
	return event.Draft{Code: event.PolicyLoaded, Actor: "service:palyrad", Payload: json.RawMessage(`{}`)}
}

// keepPolicy keeps a set of that version.
func keepPolicy(t *testing.T, db *sqlite.DB, version, by string, activated bool) policyadmin.KeptSet {
	t.Helper()
	snapshot := []byte(`{"version":"` + version + `"}`)
	p := policyadmin.KeptSet{
		Version: version, Sources: []byte(`["` + version + `"]`), SnapshotDigest: canonical.Digest(snapshot), Snapshot: snapshot,
		Inputs: []byte(`{"of":"` + version + `"}`), Policies: 7, LoadedBy: by, Activated: activated,
	}
	must.Do(t, db.PutPolicySet(t.Context(), p, loaded()))
	return p
}

func TestPolicySetsAndSnapshots(t *testing.T) {
	db := sqlitetest.Open(t)
	for i := range 3 {
		p := keepPolicy(t, db, fmt.Sprintf("sha256:v%d", i%2), "user:a", false) // the first comes back
		got, err := db.Snapshot(t.Context(), p.SnapshotDigest)
		if err != nil || string(got) != string(p.Snapshot) {
			t.Errorf("%s: %s, %v", p.Version, got, err)
		}
		if got, err := db.SnapshotInputs(t.Context(), p.SnapshotDigest); err != nil || string(got) != string(p.Inputs) {
			t.Errorf("inputs of %s: %s, %v", p.Version, got, err)
		}
	}
	assertCount(t, db, "SELECT count(*) FROM policy_versions", 2)
	assertCount(t, db, "SELECT count(*) FROM snapshots", 2)
	assertCount(t, db, "SELECT count(*) FROM events WHERE code = 'PAL-P100'", 3)
	if _, err := db.Snapshot(t.Context(), "sha256:none"); reason.Of(err) != reason.NotFound {
		t.Errorf("an unknown digest: %v", err)
	}
}

// A snapshot that was kept without its inputs gets them when its set comes
// back, and has none until then.
func TestSnapshotWithoutInputs(t *testing.T) {
	db := sqlitetest.Open(t)
	p := policyadmin.KeptSet{Version: "sha256:v", Sources: []byte(`[]`), SnapshotDigest: "sha256:s", Snapshot: []byte(`{}`)}
	for _, inputs := range []string{"", "{}", "other"} {
		if p.Inputs = []byte(inputs); inputs == "" {
			p.Inputs = nil
		}
		must.Do(t, db.PutPolicySet(t.Context(), p, loaded()))
		want := inputs
		if inputs == "other" {
			want = "{}" // what is kept stays
		}
		if got, err := db.SnapshotInputs(t.Context(), "sha256:s"); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("inputs %q, want %q: %v", got, want, err)
		}
	}
}

func TestPolicyVersions(t *testing.T) {
	db := sqlitetest.Open(t)
	for _, v := range []string{"sha256:aa1", "sha256:ab2", "sha256:ac3", "sha256:aa1"} {
		keepPolicy(t, db, v, "user:"+v, false)
	}
	var names []string
	var before int64
	for {
		page := must.Get(db.PolicyVersions(t.Context(), before, 2))(t)
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
		v, err := db.PolicyVersion(t.Context(), given)
		if (err == nil) != (want == "") || err != nil && reason.Of(err) != want || err == nil && v.Version != "sha256:ab2" {
			t.Errorf("%s: %s, %v", given, v.Version, err)
		}
	}
}

// An activation lasts over a restart until another set is kept without one.
func TestActivatedPolicy(t *testing.T) {
	path := t.TempDir() + "/palyra.db"
	db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	want := func(version string) {
		t.Helper()
		v, found, err := db.ActivatedPolicy(t.Context())
		if err != nil || found != (version != "") || v.Version != version {
			t.Errorf("activated is %q, want %q: %v", v.Version, version, err)
		}
	}
	want("")
	keepPolicy(t, db, "sha256:a", "user:a", false)
	want("")
	keepPolicy(t, db, "sha256:b", "user:a", true)
	want("sha256:b")
	must.Do(t, db.Close(t.Context()))
	db = sqlitetest.OpenAt(t, path, sqlite.Options{})
	want("sha256:b")
	keepPolicy(t, db, "sha256:a", "user:a", true)
	want("sha256:a")
	keepPolicy(t, db, "sha256:c", "user:a", false)
	want("")
	keepPolicy(t, db, "sha256:a", "user:a", true)
	must.Do(t, db.EndActivation(t.Context(), event.Draft{Code: event.PolicyReset, Actor: "service:palyrad", Payload: json.RawMessage(`{}`)}))
	want("")
	assertCount(t, db, "SELECT count(*) FROM events WHERE code = 'PAL-P107'", 1)
	// What cannot be journaled does not happen.
	p := policyadmin.KeptSet{Version: "sha256:d", Sources: []byte(`[]`), SnapshotDigest: "sha256:s", Snapshot: []byte(`{}`), Activated: true}
	if err := db.PutPolicySet(t.Context(), p, event.Draft{Code: "PAL-?", Payload: []byte(`no JSON`)}); err == nil {
		t.Error("an event that is no JSON was appended")
	}
	want("")
}

func TestProposalOf(t *testing.T) {
	db := sqlitetest.Open(t)
	id := ulid.Make()
	for _, d := range []event.Draft{
		{Code: event.Decided, Actor: "user:a", Subject: "other", Payload: json.RawMessage(`{"decision_id":"01JZ8Q4T2M0000000000000000"}`)},
		{Code: event.Evaluated, Actor: "user:a", Subject: "wrong code", Payload: json.RawMessage(`{"decision_id":"` + id.String() + `"}`)},
		{Code: event.Decided, Actor: "user:a", Subject: "it", Payload: json.RawMessage(`{"decision_id":"` + id.String() + `"}`)},
	} {
		must.Get(db.Append(t.Context(), d))(t)
	}
	at := id.Timestamp()
	for _, c := range []struct {
		id     string
		before time.Time
		want   string
	}{
		{id.String(), at.Add(-time.Minute), "it"}, {id.String(), at.Add(time.Hour), ""}, {ulid.Make().String(), at.Add(-time.Minute), ""},
	} {
		proposal, found, err := db.ProposalOf(t.Context(), c.id, c.before)
		if err != nil || proposal != c.want || found != (c.want != "") {
			t.Errorf("%s: %q, %v, %v", c.id, proposal, found, err)
		}
	}
}

// An older store's versions get who loaded them, and how many policies they
// have, from the journal; its snapshots have no inputs.
func TestMigrationFillsPolicyVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, sqlite.MakeOld(path, 6, func(c *sqlite.Conn) error {
		var head journal.Head
		var errs []error
		for n, d := range []struct{ actor, version string }{{"user:first", "sha256:a"}, {"user:later", "sha256:a"}, {"user:b", "sha256:b"}} {
			payload := fmt.Sprintf(`{"policies":%d,"policy_version":%q}`, 20+n, d.version)
			e := journal.Seal(head, event.Draft{Code: event.PolicyLoaded, Actor: d.actor, Payload: []byte(payload)}, time.Now(), journal.NewNonce())
			head = e.Head()
			errs = append(errs, c.Query(`INSERT INTO events (seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload)
				VALUES (?1, ?2, ?3, ?4, '', '', ?5, '', ?6, ?7, ?8, ?9, ?10)`, nil,
				e.Seq, e.At, e.ID, e.Code, e.Actor, e.Hash[:], e.PrevHash[:], e.PayloadSHA256[:], e.Salt, []byte(e.Payload)))
		}
		for _, version := range []string{"sha256:a", "sha256:b", "sha256:unknown"} {
			errs = append(errs, c.Query("INSERT INTO policy_versions (version, sources, at) VALUES (?1, ?2, 1)", nil, version, []byte(`[]`)))
		}
		return errors.Join(append(errs, c.Query("INSERT INTO snapshots (digest, content, at) VALUES ('sha256:s', ?1, 1)", nil, []byte(`{}`)))...)
	}))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	list := must.Get(db.PolicyVersions(t.Context(), 0, 10))(t)
	got := ""
	for _, v := range list {
		got += fmt.Sprintf("%s %s %d; ", v.Version, v.LoadedBy, v.Policies)
	}
	if got != "sha256:unknown  0; sha256:b user:b 22; sha256:a user:first 20; " {
		t.Errorf("versions: %s", got)
	}
	if inputs, err := db.SnapshotInputs(t.Context(), "sha256:s"); err != nil || inputs != nil {
		t.Errorf("inputs %q, %v", inputs, err)
	}
}
