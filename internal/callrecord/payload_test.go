package callrecord_test

import (
	"encoding/json"
	"testing"

	"palyra/internal/callrecord"
	"palyra/internal/canonical"
	"palyra/internal/must"
	"palyra/internal/policy/policytest"
)

// What is journaled of a verdict is what policy says, also within a payload.
func TestVerdictIsJournaledWhole(t *testing.T) {
	var _ canonical.Shaped = callrecord.Verdict{}
	r := policytest.Request("fs.read", `{"path":"a"}`)
	v := policytest.Set(t, policytest.Options{}).Evaluate(r, nil)
	payload := callrecord.Evaluated{ProposalID: "p", CallDigest: "d", Verdict: callrecord.VerdictOf(v), Request: r}
	want := must.Get(canonical.Marshal(map[string]any{
		"proposal_id": "p", "call_digest": "d", "verdict": json.RawMessage(must.Get(v.MarshalJSON())(t)), "request": json.RawMessage(must.Get(r.MarshalJSON())(t)),
	}))(t)
	if got := must.Get(canonical.Marshal(payload))(t); string(got) != string(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
