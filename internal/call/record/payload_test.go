package record_test

import (
	"encoding/json"
	"testing"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// The journaled form of a verdict equals the verdict's JSON, also within a payload.
func TestVerdictIsJournaledWhole(t *testing.T) {
	t.Parallel()
	var _ canonical.Shaped = record.Verdict{}
	r := policytest.Request("fs.read", `{"path":"a"}`)
	v := policytest.Set(t, policytest.Options{}).Evaluate(r, nil)
	payload := record.Evaluated{ProposalID: "p", CallDigest: "d", Verdict: record.VerdictOf(v), Request: r}
	want := must.Get(canonical.Marshal(map[string]any{
		"proposal_id": "p", "call_digest": "d", "verdict": json.RawMessage(must.Get(v.MarshalJSON())(t)), "request": json.RawMessage(must.Get(r.MarshalJSON())(t)),
	}))(t)
	if got := must.Get(canonical.Marshal(payload))(t); string(got) != string(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A decision opens a call if it allows the call or cannot be parsed.
func TestOpens(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]bool{
		string(must.Get(canonical.Marshal(decision.Record{Allowed: true}))(t)): true,
		string(must.Get(canonical.Marshal(decision.Record{}))(t)):              false,
		`{"allowed":true}`:                       true,
		`{"allowed":false}`:                      false,
		`{"allowed": true}`:                      true,
		`{"z":1,"allowed":false}`:                false,
		`{"z":1.5,"allowed":true}`:               true,
		`{"ALLOWED":true}`:                       true,
		`{"ALLOWED":true,"allowed":false}`:       false,
		`{"allowed":null}`:                       false,
		`{"allowed":1}`:                          true,
		`{"allowed":false}x`:                     true,
		`{"allowed":false,"b":{"allowed":true}}`: false,
		`{"allowed":false,"b":`:                  true,
		`{}`:                                     false,
		``:                                       true,
	} {
		var reference struct {
			Allowed bool `json:"allowed"`
		}
		if was := json.Unmarshal([]byte(payload), &reference) != nil || reference.Allowed; was != want {
			t.Errorf("%s: encoding/json says %t", payload, was)
		}
		if got := record.Opens(&journal.Event{Code: event.Decided, Payload: []byte(payload)}); got != want {
			t.Errorf("Opens(%s) = %t, want %t", payload, got, want)
		}
	}
	if record.Opens(&journal.Event{Code: event.Evaluated, Payload: []byte(`{"allowed":true}`)}) {
		t.Error("an evaluation opens a call")
	}
}
