package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/attest"
	"palyra/internal/callrecord"
	"palyra/internal/canonical"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

var coder = access.Agent("coder")

// callEvent drafts an event about a call.
func callEvent(t *testing.T, code event.Code, proposal, run string, payload any) event.Draft {
	t.Helper()
	text, err := canonical.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return event.Draft{Code: code, Session: "s", Run: run, Actor: coder.String(), Subject: proposal, Payload: text}
}

func record(t *testing.T, calls *sqlite.Calls, e toolcall.Entry) int64 {
	t.Helper()
	seq, err := calls.Record(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func decided(t *testing.T, proposal string, allowed bool) event.Draft {
	t.Helper()
	return callEvent(t, event.Decided, proposal, "run-"+proposal, decision.Record{ID: "d-" + proposal, ProposalID: proposal, Allowed: allowed})
}

func openIDs(t *testing.T, calls *sqlite.Calls) []string {
	t.Helper()
	open, err := calls.OpenCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, o := range open {
		if o.Session != "s" || o.Run != "run-"+o.ProposalID || o.Actor != coder.String() {
			t.Errorf("open call %+v", o)
		}
		ids = append(ids, o.ProposalID)
	}
	return ids
}

// A call is open from its allowing decision to its end, in step with the
// journal.
func TestOpenCallsFollowTheJournal(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	want := func(what string, ids ...string) {
		t.Helper()
		if got := openIDs(t, calls); !slices.Equal(got, append([]string{}, ids...)) {
			t.Errorf("%s: open %v, want %v", what, got, ids)
		}
	}
	none := struct{}{}
	want("at first")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{
		callEvent(t, event.Proposed, "a", "run-a", none), callEvent(t, event.Evaluated, "a", "run-a", none),
	}})
	want("proposed and evaluated")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{decided(t, "a", true), decided(t, "b", false), decided(t, "c", true)}})
	want("decided", "a", "c")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{callEvent(t, event.Attested, "a", "run-a", none)}})
	want("attested", "c")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{callEvent(t, event.Ambiguous, "c", "run-c", none)}})
	want("ambiguous")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{decided(t, "d", true), callEvent(t, event.Attested, "d", "run-d", none)}})
	want("both at once")
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{decided(t, "e", true), callEvent(t, event.Refused, "e", "run-e", none)}})
	want("another event of the call does not close it", "e")

	// Another room's unit counts as well, and a unit that is rolled back does
	// not.
	if _, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { tx.Emit(decided(t, "f", true)); return nil }}); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	if _, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { tx.Emit(decided(t, "g", true)); return lost }}); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	want("from another room", "e", "f")
}

// What is open survives a restart.
func TestOpenCallsSurviveARestart(t *testing.T) {
	path := t.TempDir() + "/palyra.db"
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	record(t, sqlite.NewCalls(db), toolcall.Entry{Drafts: []event.Draft{decided(t, "a", true)}})
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db = sqlitetest.OpenAt(t, path, sqlite.Options{})
	if got := openIDs(t, sqlite.NewCalls(db)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("open %v", got)
	}
}

func claim(proposal, key string, age time.Duration) *toolcall.Claim {
	return &toolcall.Claim{Principal: coder, Key: key, Digest: "sha256:" + proposal, ProposalID: proposal, At: time.Now().Add(-age)}
}

func TestClaims(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	entry := func(proposal string, c *toolcall.Claim) toolcall.Entry {
		return toolcall.Entry{
			Claim: c, Blobs: [][]byte{[]byte("blob of " + proposal)},
			Drafts: []event.Draft{callEvent(t, event.Proposed, proposal, "run", struct{}{})},
		}
	}
	record(t, calls, entry("a", claim("a", "k", time.Hour)))
	got, found, err := calls.Claimed(t.Context(), coder, "k")
	if err != nil || !found || got.ProposalID != "a" || got.Digest != "sha256:a" || got.Key != "k" || got.Principal != coder {
		t.Fatalf("got %+v, %v, %v", got, found, err)
	}
	for name, c := range map[string]struct {
		p   access.Principal
		key string
	}{"another key": {coder, "other"}, "another principal": {access.Agent("other"), "k"}} {
		if _, found, err := calls.Claimed(t.Context(), c.p, c.key); found || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}

	// A key that is taken fails its entry, and nothing of it is kept.
	head := db.Head()
	if _, err := calls.Record(t.Context(), entry("b", claim("b", "k", 0))); reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("a second claim: %v", err)
	}
	if db.Head() != head {
		t.Error("the lost entry is in the journal")
	}
	err = db.Read(t.Context(), func(c *sqlite.Conn) error {
		_, err := c.Blob(canonical.Digest([]byte("blob of b")))
		return err
	})
	if err == nil {
		t.Error("the lost entry's blob was kept")
	}
	record(t, calls, entry("b", claim("b", "k2", 0)))
}

// A claim is forgotten after a day: it is not found, and its key is free.
func TestClaimsEndAfterADay(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	drafts := []event.Draft{callEvent(t, event.Proposed, "p", "run", struct{}{})}
	record(t, calls, toolcall.Entry{Claim: claim("young", "k1", sqlite.ClaimLife-time.Minute), Drafts: drafts})
	record(t, calls, toolcall.Entry{Claim: claim("old", "k2", sqlite.ClaimLife+time.Minute), Drafts: drafts})
	if _, found, err := calls.Claimed(t.Context(), coder, "k1"); !found || err != nil {
		t.Errorf("just before its end: %v, %v", found, err)
	}
	if _, found, err := calls.Claimed(t.Context(), coder, "k2"); found || err != nil {
		t.Errorf("after its end: %v, %v", found, err)
	}
	record(t, calls, toolcall.Entry{Claim: claim("new", "k2", 0), Drafts: drafts})
	if got, found, _ := calls.Claimed(t.Context(), coder, "k2"); !found || got.ProposalID != "new" {
		t.Errorf("the key again: %+v, %v", got, found)
	}
	if _, err := calls.Record(t.Context(), toolcall.Entry{Claim: claim("x", "k1", 0), Drafts: drafts}); reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("the young key: %v", err)
	}
	assertCount(t, db, "SELECT count(*) FROM claims", 2)
}

func proposed(t *testing.T, id, run, name string, openWorld bool) event.Draft {
	t.Helper()
	return callEvent(t, event.Proposed, id, run, callrecord.Proposed{ProposalID: id, Tool: name, OpenWorld: openWorld})
}

func refused(t *testing.T, id, run, name string) event.Draft {
	t.Helper()
	return callEvent(t, event.Refused, id, run, callrecord.Refused{ProposalID: id, Tool: name, Reason: reason.UnknownTool})
}

func attested(t *testing.T, id, run string, e tool.Egress) event.Draft {
	t.Helper()
	return callEvent(t, event.Attested, id, run, callrecord.Attested{ProposalID: id, Report: tool.Report{Egress: e}, Envelope: json.RawMessage("{}")})
}

func TestPast(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	result := []byte(`{"z": 1}`)
	envelope := []byte(`{"payload":"x"}`)
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{proposed(t, "a", "run-a", "fs.read", false), decided(t, "a", true)}})
	seq := record(t, calls, toolcall.Entry{
		Blobs: [][]byte{result},
		Drafts: []event.Draft{callEvent(t, event.Attested, "a", "run-a", callrecord.Attested{
			AttestationID: "att-a", ProposalID: "a", ResultBlob: canonical.Digest(result), Report: tool.Report{Outcome: tool.Succeeded}, Envelope: envelope,
		})},
		Attestation: &toolcall.StoredAttestation{
			Envelope: attest.Envelope{ID: "att-a", JSON: envelope, SHA256: "00"}, ProposalID: "a", CallDigest: "sha256:c",
		},
	})
	past := func(id string) callrecord.Story {
		t.Helper()
		events, err := calls.Events(t.Context(), journal.Filter{Subject: id})
		if err != nil {
			t.Fatal(err)
		}
		story, err := callrecord.Tell(events)
		if err != nil {
			t.Fatal(err)
		}
		return story
	}
	a := past("a")
	if a.Proposed.Tool != "fs.read" || a.Session != "s" || a.Run != "run-a" || !a.Decided.Allowed || a.Decided.ID != "d-a" ||
		a.AttestedSeq != seq || a.Attested.Report.Outcome != tool.Succeeded ||
		string(a.Attested.Envelope) != string(envelope) || a.Refused != nil || a.Ambiguous != nil {
		t.Errorf("a whole call: %+v", a)
	}
	if kept, err := calls.Blob(t.Context(), a.Attested.ResultBlob); err != nil || string(kept) != string(result) {
		t.Errorf("its result: %s, %v", kept, err)
	}
	if stored, err := db.AttestationByProposal(t.Context(), "a"); err != nil || stored.ID != "att-a" || stored.CallDigest != "sha256:c" || stored.Seq != seq {
		t.Errorf("its attestation: %+v, %v", stored, err)
	}

	record(t, calls, toolcall.Entry{Drafts: []event.Draft{refused(t, "b", "run-b", "x")}})
	if b := past("b"); b.Refused.Reason != reason.UnknownTool || b.Proposed != nil || b.Decided != nil {
		t.Errorf("a refusal: %+v", b)
	}
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{decided(t, "c", true), callEvent(t, event.Ambiguous, "c", "run-c", struct{}{})}})
	if c := past("c"); c.Ambiguous == nil || c.Attested != nil || !c.Decided.Allowed {
		t.Errorf("an interrupted call: %+v", c)
	}
	if none := past("none"); none.Proposed != nil || none.Decided != nil || none.Refused != nil {
		t.Errorf("no call: %+v", none)
	}
}

// A second attestation of a call fails its entry whole.
func TestOneAttestationPerCall(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	entry := func(id string) toolcall.Entry {
		return toolcall.Entry{
			Drafts:      []event.Draft{callEvent(t, event.Attested, "a", "run-a", struct{}{})},
			Attestation: &toolcall.StoredAttestation{Envelope: attest.Envelope{ID: id, JSON: []byte("{}"), SHA256: "00"}, ProposalID: "a"},
		}
	}
	record(t, calls, entry("one"))
	head := db.Head()
	if _, err := calls.Record(t.Context(), entry("two")); reason.Of(err) != reason.AlreadyExists || db.Head() != head {
		t.Errorf("a second one: %v", err)
	}
}

func TestRecordOnAClosedStore(t *testing.T) {
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	if err := db.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := calls.Record(t.Context(), toolcall.Entry{Drafts: []event.Draft{decided(t, "a", true)}}); reason.Of(err) != reason.ShuttingDown {
		t.Errorf("got %v", err)
	}
}
