package sqlite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/calltest"
	"palyra/internal/call/decision"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

var coder = access.Agent("coder")

// callEvent returns the draft of an event about a call.
func callEvent(t *testing.T, code event.Code, proposal, run string, payload any) event.Draft {
	t.Helper()
	text := must.Get(canonical.Marshal(payload))(t)
	return event.Draft{Code: code, Session: "s", Run: run, Actor: coder.String(), Subject: proposal, Payload: text}
}

func record(t *testing.T, calls *sqlite.Calls, e call.Entry) int64 {
	t.Helper()
	return must.Get(calls.Record(t.Context(), e))(t)
}

func decided(t *testing.T, proposal string, allowed bool) event.Draft {
	t.Helper()
	return callEvent(t, event.Decided, proposal, "run-"+proposal, decision.Record{ID: "d-" + proposal, ProposalID: proposal, Allowed: allowed})
}

func openIDs(t *testing.T, calls *sqlite.Calls) []string {
	t.Helper()
	open := must.Get(calls.OpenCalls(t.Context()))(t)
	ids := []string{}
	for _, o := range open {
		if o.Session != "s" || o.Run != "run-"+o.ProposalID || o.Actor != coder.String() {
			t.Errorf("open call %+v", o)
		}
		ids = append(ids, o.ProposalID)
	}
	return ids
}

func TestLedger(t *testing.T) {
	t.Parallel()
	calltest.RunLedger(t, func(t *testing.T) call.Ledger { return sqlite.NewCalls(sqlitetest.Open(t)) })
}

// TestCallPagesUseIndexes: a page of calls reads and sorts only its own rows and the few recent
// calls.
func TestCallPagesUseIndexes(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	scans := func(plan []string) bool {
		return slices.ContainsFunc(plan, func(step string) bool {
			return strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN") && step != "SCAN session_calls USING COVERING INDEX session_calls_newest" && step != "SCAN r"
		})
	}
	for _, f := range []call.Filter{
		{}, {PageToken: "p"}, {Of: access.User("alice")}, {Of: coder}, {Principal: coder}, {Principal: access.User("alice")},
		{Of: access.User("alice"), Principal: coder}, {Of: access.User("alice"), Principal: access.User("bob")}, {Of: coder, PageToken: "p"},
		{Of: access.User("alice"), Principal: coder, PageToken: "p"},
	} {
		f.PageSize = 50
		if plan := must.Get(sqlite.CallsPlan(db, f))(t); scans(plan) {
			t.Errorf("%+v: %q", f, plan)
		}
	}
	// Control: the table's order by session cannot serve a page.
	plan := must.Get(sqlite.Plan(db, "SELECT proposal_id FROM session_calls NOT INDEXED WHERE session IN (SELECT id FROM sessions) ORDER BY proposal_id DESC LIMIT 51"))(t)
	if !scans(plan) {
		t.Errorf("the control's plan is %q", plan)
	}
}

// A unit of another package also opens a call; a unit that is rolled back does not.
func TestOpenCallsOfOtherStores(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	must.Get(db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { tx.Emit(decided(t, "f", true)); return nil }}))(t)
	lost := errors.New("lost")
	if _, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { tx.Emit(decided(t, "g", true)); return lost }}); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	if got := openIDs(t, calls); !slices.Equal(got, []string{"f"}) {
		t.Errorf("open %v", got)
	}
}

// Open calls survive a restart.
func TestOpenCallsSurviveARestart(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/palyra.db"
	db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	record(t, sqlite.NewCalls(db), call.Entry{Drafts: []event.Draft{decided(t, "a", true)}})
	must.Do(t, db.Close(t.Context()))
	db = sqlitetest.OpenAt(t, path, sqlite.Options{})
	if got := openIDs(t, sqlite.NewCalls(db)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("open %v", got)
	}
}

// The rows that an entry stores in addition to its events can be found by it, and expired keys
// are removed.
func TestRowsOfAnEntry(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	for i, age := range []time.Duration{call.ClaimLife - time.Minute, call.ClaimLife + time.Minute, 0} {
		key := string(rune('k' + i))
		record(t, calls, call.Entry{Claim: &call.Claim{Principal: coder, Key: key, ProposalID: key, At: time.Now().Add(-age)}})
	}
	assertCount(t, db, "SELECT count(*) FROM claims", 2)
	seq := record(t, calls, call.Entry{
		Drafts: []event.Draft{callEvent(t, event.Attested, "a", "run-a", struct{}{})},
		Attestation: &call.StoredAttestation{
			Envelope: attest.Envelope{ID: "att-a", JSON: []byte("{}"), SHA256: "00"}, ProposalID: "a", CallDigest: "sha256:c",
		},
	})
	if stored, err := sqlite.NewAttestations(db).AttestationByProposal(t.Context(), "a"); err != nil || stored.ID != "att-a" || stored.CallDigest != "sha256:c" || stored.Seq != seq {
		t.Errorf("its attestation: %+v, %v", stored, err)
	}
}

func TestRecordOnAClosedStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	must.Do(t, db.Close(context.Background()))
	if _, err := calls.Record(t.Context(), call.Entry{Drafts: []event.Draft{decided(t, "a", true)}}); reason.Of(err) != reason.ShuttingDown {
		t.Errorf("got %v", err)
	}
}
