// Package calltest has the conformance suite of ledgers.
package calltest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/decision"
	callrecord "palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// RunLedger is the conformance suite of call.Ledger.
func RunLedger(t *testing.T, newLedger func(t *testing.T) call.Ledger) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, call.Ledger)
	}{
		{"open calls follow the journal", openCalls},
		{"a key has one claim", claims},
		{"claims end after a day", claimsEnd},
		{"events and blobs tell a story", stories},
		{"the newest session of a caller goes on", sessions},
		{"a session ends once", endings},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newLedger(t)) })
	}
}

var coder = access.Agent("coder")

// callEvent drafts an event about a call.
func callEvent(t *testing.T, code event.Code, proposal, run string, payload any) event.Draft {
	t.Helper()
	text := must.Get(canonical.Marshal(payload))(t)
	return event.Draft{Code: code, Session: "s", Run: run, Actor: coder.String(), Subject: proposal, Payload: text}
}

func record(t *testing.T, calls call.Ledger, e call.Entry) int64 {
	t.Helper()
	return must.Get(calls.Record(t.Context(), e))(t)
}

func decided(t *testing.T, proposal string, allowed bool) event.Draft {
	t.Helper()
	return callEvent(t, event.Decided, proposal, "run-"+proposal, decision.Record{ID: "d-" + proposal, ProposalID: proposal, Allowed: allowed})
}

func openIDs(t *testing.T, calls call.Ledger) []string {
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

// A call is open from its allowing decision to its end, consistently with the journal.
func openCalls(t *testing.T, calls call.Ledger) {
	want := func(what string, ids ...string) {
		t.Helper()
		if got := openIDs(t, calls); !slices.Equal(got, append([]string{}, ids...)) {
			t.Errorf("%s: open %v, want %v", what, got, ids)
		}
	}
	none := struct{}{}
	want("at first")
	record(t, calls, call.Entry{Drafts: []event.Draft{
		callEvent(t, event.Proposed, "a", "run-a", none), callEvent(t, event.Evaluated, "a", "run-a", none),
	}})
	want("proposed and evaluated")
	record(t, calls, call.Entry{Drafts: []event.Draft{decided(t, "a", true), decided(t, "b", false), decided(t, "c", true)}})
	want("decided", "a", "c")
	record(t, calls, call.Entry{Drafts: []event.Draft{callEvent(t, event.Attested, "a", "run-a", none)}})
	want("attested", "c")
	record(t, calls, call.Entry{Drafts: []event.Draft{callEvent(t, event.Ambiguous, "c", "run-c", none)}})
	want("ambiguous")
	record(t, calls, call.Entry{Drafts: []event.Draft{decided(t, "d", true), callEvent(t, event.Attested, "d", "run-d", none)}})
	want("both at once")
	record(t, calls, call.Entry{Drafts: []event.Draft{decided(t, "e", true), callEvent(t, event.Refused, "e", "run-e", none)}})
	want("another event of the call does not close it", "e")
}

func claim(proposal, key string, age time.Duration) *call.Claim {
	return &call.Claim{Principal: coder, Key: key, Digest: "sha256:" + proposal, ProposalID: proposal, At: time.Now().Add(-age)}
}

func claims(t *testing.T, calls call.Ledger) {
	entry := func(proposal string, c *call.Claim) call.Entry {
		return call.Entry{
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

	// An entry with a claimed key fails completely.
	head, _ := calls.Head()
	if _, err := calls.Record(t.Context(), entry("b", claim("b", "k", 0))); reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("a second claim: %v", err)
	}
	if now, _ := calls.Head(); now != head {
		t.Error("the lost entry is in the journal")
	}
	_, err = calls.Blob(t.Context(), canonical.Digest([]byte("blob of b")))
	if err == nil {
		t.Error("the lost entry's blob was kept")
	}
	record(t, calls, entry("b", claim("b", "k2", 0)))
}

// A claim expires after ClaimLife: it is not found, and its key is free.
func claimsEnd(t *testing.T, calls call.Ledger) {
	drafts := []event.Draft{callEvent(t, event.Proposed, "p", "run", struct{}{})}
	record(t, calls, call.Entry{Claim: claim("young", "k1", call.ClaimLife-time.Minute), Drafts: drafts})
	record(t, calls, call.Entry{Claim: claim("old", "k2", call.ClaimLife+time.Minute), Drafts: drafts})
	if _, found, err := calls.Claimed(t.Context(), coder, "k1"); !found || err != nil {
		t.Errorf("just before its end: %v, %v", found, err)
	}
	if _, found, err := calls.Claimed(t.Context(), coder, "k2"); found || err != nil {
		t.Errorf("after its end: %v, %v", found, err)
	}
	record(t, calls, call.Entry{Claim: claim("new", "k2", 0), Drafts: drafts})
	if got, found, _ := calls.Claimed(t.Context(), coder, "k2"); !found || got.ProposalID != "new" {
		t.Errorf("the key again: %+v, %v", got, found)
	}
	if _, err := calls.Record(t.Context(), call.Entry{Claim: claim("x", "k1", 0), Drafts: drafts}); reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("the young key: %v", err)
	}
}

func proposed(t *testing.T, id, run, name string, openWorld bool) event.Draft {
	t.Helper()
	return callEvent(t, event.Proposed, id, run, callrecord.Proposed{ProposalID: id, Tool: name, OpenWorld: openWorld})
}

func refused(t *testing.T, id, run, name string) event.Draft {
	t.Helper()
	return callEvent(t, event.Refused, id, run, callrecord.Refused{ProposalID: id, Tool: name, Reason: reason.UnknownTool})
}

func stories(t *testing.T, calls call.Ledger) {
	result := []byte(`{"z": 1}`)
	envelope := []byte(`{"payload":"x"}`)
	record(t, calls, call.Entry{Drafts: []event.Draft{proposed(t, "a", "run-a", "fs.read", false), decided(t, "a", true)}})
	seq := record(t, calls, call.Entry{
		Blobs: [][]byte{result},
		Drafts: []event.Draft{callEvent(t, event.Attested, "a", "run-a", callrecord.Attested{
			AttestationID: "att-a", ProposalID: "a", ResultBlob: canonical.Digest(result), Report: tool.Report{Outcome: tool.Succeeded}, Envelope: envelope,
		})},
		Attestation: &call.StoredAttestation{
			Envelope: attest.Envelope{ID: "att-a", JSON: envelope, SHA256: "00"}, ProposalID: "a", CallDigest: "sha256:c",
		},
	})
	past := func(id string) callrecord.Story {
		t.Helper()
		events := must.Get(calls.Events(t.Context(), journal.Filter{Subject: id}))(t)
		return must.Get(callrecord.Tell(events))(t)
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
	record(t, calls, call.Entry{Drafts: []event.Draft{refused(t, "b", "run-b", "x")}})
	if b := past("b"); b.Refused.Reason != reason.UnknownTool || b.Proposed != nil || b.Decided != nil {
		t.Errorf("a refusal: %+v", b)
	}
	record(t, calls, call.Entry{Drafts: []event.Draft{decided(t, "c", true), callEvent(t, event.Ambiguous, "c", "run-c", struct{}{})}})
	if c := past("c"); c.Ambiguous == nil || c.Attested != nil || !c.Decided.Allowed {
		t.Errorf("an interrupted call: %+v", c)
	}
	if none := past("none"); none.Proposed != nil || none.Decided != nil || none.Refused != nil {
		t.Errorf("no call: %+v", none)
	}
}

var coderKey = session.Key{Principal: coder, Device: "d", Client: session.API}

// member returns a call of a session. Each session of these tests has a letter.
func member(id string, call string, ofRun bool) *session.Member {
	return &session.Member{
		Session: id, Proposal: call, OfRun: ofRun,
		New: &session.Row{ID: id, Key: coderKey, OnBehalfOf: access.User("alice"), StartedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

// newest returns the newest session of a key with the state from its calls.
func newest(t *testing.T, calls call.Ledger, k session.Key) (session.Past, bool, error) {
	t.Helper()
	var facts callrecord.Facts
	past, found, err := calls.NewestSession(t.Context(), k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}

// The active session of a caller is the one that started last. Calls in runs that the gateway
// supervises are counted separately.
func sessions(t *testing.T, calls call.Ledger) {
	if _, found, err := newest(t, calls, coderKey); found || err != nil {
		t.Fatalf("%t, %v", found, err)
	}
	for i, id := range []string{"A", "B", "B", "B"} {
		one := string(rune('a' + i))
		record(t, calls, call.Entry{Drafts: []event.Draft{proposed(t, one, "run-1", "fs.read", false)}, Member: member(id, one, i == 3)})
	}
	got, found, err := newest(t, calls, coderKey)
	if err != nil || !found || got.ID != "B" || got.Facts.CallsInRun != 2 || got.RunCalls != 1 {
		t.Errorf("%+v, %t, %v", got, found, err)
	}
	for _, other := range []session.Key{
		{Principal: access.Agent("other"), Device: "d", Client: session.API}, {Principal: coder, Device: "e", Client: session.API}, {Principal: coder, Device: "d", Client: "mcp"},
	} {
		if _, found, err := newest(t, calls, other); found || err != nil {
			t.Errorf("%+v: %t, %v", other, found, err)
		}
	}
	for run, want := range map[string]int{"run-1": 4, "run-2": 0, "": 0} {
		if n, err := calls.RunCalls(t.Context(), coder, run); n != want || err != nil {
			t.Errorf("%q: %d, %v", run, n, err)
		}
	}
}

// callPages pages through calls by their parties.
func callPages(t *testing.T, calls call.Ledger) {
	for name, c := range map[string]struct {
		filter     call.Filter
		want, next string
	}{
		"all":           {call.Filter{PageSize: 5}, "cba", ""},
		"a page":        {call.Filter{PageSize: 2}, "cb", "b"},
		"the next page": {call.Filter{PageSize: 2, PageToken: "b"}, "a", ""},
		"of its user":   {call.Filter{PageSize: 5, Of: access.User("alice"), Principal: coder}, "cba", ""},
		"of nobody":     {call.Filter{PageSize: 5, Of: access.User("bob")}, "", ""},
		"of a run":      {call.Filter{PageSize: 2, Run: "run-1"}, "cb", "b"},
		"the rest":      {call.Filter{PageSize: 2, Run: "run-1", PageToken: "b"}, "a", ""},
		"of no run":     {call.Filter{PageSize: 2, Run: "run-2"}, "", ""},
		// A page for another principal's run must not reveal that more calls exist.
		"of another's run": {call.Filter{PageSize: 1, Run: "run-1", Of: access.User("bob")}, "", ""},
	} {
		ids, next, err := calls.Calls(t.Context(), c.filter)
		if got := strings.Join(ids, ""); got != c.want || next != c.next || err != nil {
			t.Errorf("calls, %s: %q and %q, %v; want %q and %q", name, got, next, err, c.want, c.next)
		}
	}
}

// endings ends a session, and pages through the sessions of its principal.
func endings(t *testing.T, calls call.Ledger) {
	for i, id := range []string{"A", "B", "C"} {
		one := string(rune('a' + i))
		record(t, calls, call.Entry{Drafts: []event.Draft{proposed(t, one, "run-1", "fs.read", false)}, Member: member(id, one, false)})
	}
	callPages(t, calls)
	alice := access.User("alice")
	end := session.Ending{ID: "B", Key: coderKey, By: alice, Reason: "enough"}
	draft := event.Draft{Code: event.SessionEnded, Actor: alice.String(), Subject: "B", Payload: json.RawMessage("{}")}
	must.Do(t, calls.EndSession(t.Context(), end, draft))
	head, _ := calls.Head()
	if err := calls.EndSession(t.Context(), end, draft); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a second end: %v", err)
	}
	if now, _ := calls.Head(); now != head {
		t.Error("the second end is in the journal")
	}
	var facts callrecord.Facts
	if b, found, err := calls.Session(t.Context(), "B", facts.Add); err != nil || !found || b.EndedAt.IsZero() || b.EndedBy != alice || b.EndReason != "enough" || facts.Did(b.StartedAt).Facts.CallsInRun != 1 {
		t.Errorf("%+v, %t, %v", b, found, err)
	}
	for name, c := range map[string]struct {
		filter session.Filter
		want   string
		more   bool
	}{
		"all":            {session.Filter{}, "CBA", false},
		"a page":         {session.Filter{PageSize: 2}, "CB", true},
		"the next page":  {session.Filter{PageSize: 2, PageToken: "B"}, "A", false},
		"open":           {session.Filter{Open: true}, "CA", false},
		"of the agent":   {session.Filter{Principal: coder}, "CBA", false},
		"of its user":    {session.Filter{Of: alice}, "CBA", false},
		"of nobody":      {session.Filter{Principal: access.Agent("other")}, "", false},
		"of another one": {session.Filter{Of: access.User("bob")}, "", false},
	} {
		page, next, err := calls.Sessions(t.Context(), c.filter)
		got := ""
		for _, p := range page {
			if got += p.ID; p.Facts.CallsInRun != 1 {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if err != nil || got != c.want || (next != "") != c.more {
			t.Errorf("%s: %q, next %q, %v, want %q", name, got, next, err, c.want)
		}
	}
}
