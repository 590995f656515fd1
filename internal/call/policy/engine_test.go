package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/reason"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	engine := policytest.Engine(t, policytest.Options{})
	v, err := engine.Evaluate(t.Context(), policytest.Request("fs.read", `{"path":"a"}`), nil)
	if err != nil || v.Effect() != policy.Allow {
		t.Errorf("reading: %v, %+v, want allow", err, v)
	}
	v, err = engine.Evaluate(t.Context(), policytest.Request("process.run", `{"argv":["ls"]}`), nil)
	if err != nil || v.Effect() != policy.Ask || v.Reason() != reason.ApprovalRequired {
		t.Errorf("running: %v, %+v, want ask", err, v)
	}
	v, _ = engine.Evaluate(t.Context(), policytest.Request("nope", `{}`), nil)
	if v.Effect() != policy.Deny || v.Reason() != reason.UnknownTool {
		t.Errorf("unknown tool: %+v, want deny", v)
	}
	// A long name is cut between two characters.
	v, _ = engine.Evaluate(t.Context(), policytest.Request("a"+strings.Repeat("é", 300), `{}`), nil)
	if got := v.Errors(); len(got) != 1 || !strings.HasSuffix(got[0], `é..."`) {
		t.Errorf("a long name: %q", got)
	}
}
