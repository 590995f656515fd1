package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
)

const why = `forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`

// An ask contains each question of its causes once. An allow and a deny have none.
func TestAskReason(t *testing.T) {
	t.Parallel()
	engine := policytest.Engine(t, policytest.Options{Policies: `@id("a") @ask_reason("Which ticket?") ` + why +
		`@id("b") @ask_reason("Since when?") ` + why + `@id("c") @ask_reason("Which ticket?") ` + why +
		`@id("d") @ask_reason("Never?") forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.requester_reason == "no" };
@id("e") @ask_reason("Which page?") @waives("approval: test") permit(principal, action == Action::"tool.execute/http.fetch", resource);`})
	for name, c := range map[string]struct {
		request policy.Request
		effect  policy.Effect
		want    string
	}{
		"ask":   {policytest.Request("process.run", `{"argv":["ls"]}`), policy.Ask, "Which ticket? Since when?"},
		"allow": {policytest.Request("http.fetch", `{"url":"https://example.com"}`), policy.Allow, ""},
		"deny":  {withReason(policytest.Request("process.run", `{"argv":["ls"]}`), "no"), policy.Deny, ""},
	} {
		v, err := engine.Evaluate(t.Context(), c.request, nil)
		if err != nil || v.Effect() != c.effect || v.AskReason() != c.want {
			t.Errorf("%s: %v, %q, %v", name, v.Effect(), v.AskReason(), err)
		}
	}
}

func withReason(r policy.Request, why string) policy.Request {
	r.RequesterReason = why
	return r
}
