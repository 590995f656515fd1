package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/tool"
)

// TestUpstreamActions: requests to an upstream server other than tool calls are decided under
// mcp.* actions. Policies that name these actions load even without a server.
func TestUpstreamActions(t *testing.T) {
	t.Parallel()
	const text = `@id("t.no") @reason("no") forbid(principal, action in Action::"mcp.read_resource", resource) when { context.egress.mode != "none" };
@id("t.yes") @reason("yes") @waives("approval: a test") permit(principal, action in Action::"mcp.*", resource in Server::"s") when { context.egress.mode != "none" };`
	policytest.Set(t, policytest.Options{Policies: text})
	own := func(name string) tool.Descriptor {
		d := policytest.Fetch
		d.Name, d.AlwaysSensitive = name, true
		return d
	}
	s := policytest.Set(t, policytest.Options{Policies: text, Tools: []tool.Descriptor{own("s/mcp.elicit"), own("s/mcp.read_resource"), own("s/elicit"), own("other/mcp.elicit")}})
	for name, want := range map[string]policy.Effect{"s/mcp.elicit": policy.Allow, "s/mcp.read_resource": policy.Deny, "s/elicit": policy.Ask, "other/mcp.elicit": policy.Ask} {
		if got := s.Evaluate(policytest.Request(name, `{"url":"x"}`), nil).Effect(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
