package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
)

// Rules about the hosts that a program may reach.
const (
	noPastebin = `@id("no-pastebin")
forbid(principal, action in Action::"tool.execute", resource)
when { context.egress.hosts.contains("paste.example.com:443") };`

	forgeOnly = `@id("forge-only")
forbid(principal == Agent::"coder", action == Action::"tool.execute/process.run", resource)
unless { ["git.example.com:443", "git.example.com:22"].containsAll(context.egress.hosts) };`

	offlineUnattended = `@id("offline-unattended")
@waives("approval: it reaches nothing")
permit(principal, action == Action::"tool.execute/process.run", resource)
when { context.egress.mode == "strict" && context.egress.hosts.isEmpty() };`
)

// TestHostsArePolicy: policy can decide by the hosts that a program may reach. Each of several
// hosts counts, and a program without network access is distinguished.
func TestHostsArePolicy(t *testing.T) {
	t.Parallel()
	const forge, paste = "git.example.com:443", "paste.example.com:443"
	for _, c := range []struct {
		name, policies string
		hosts          []string
		want           policy.Effect
	}{
		{"the defaults ask", "", []string{forge}, policy.Ask},
		{"a host that is forbidden", noPastebin, []string{forge, paste}, policy.Deny},
		{"another host", noPastebin, []string{forge}, policy.Ask},
		{"the same host on another port", noPastebin, []string{"paste.example.com:80"}, policy.Ask},
		{"what a list has", forgeOnly, []string{forge}, policy.Ask},
		{"more than a list has", forgeOnly, []string{forge, paste}, policy.Deny},
		{"a wildcard that covers more than a list", forgeOnly, []string{"*.example.com:443"}, policy.Deny},
		{"nothing, with a list", forgeOnly, nil, policy.Ask},
		{"offline without a human", offlineUnattended, nil, policy.Allow},
		{"hosts with the same rule", offlineUnattended, []string{forge}, policy.Ask},
	} {
		r := policytest.Request("process.run", `{"argv":["git"]}`)
		r.Facts.EgressMode, r.Facts.EgressHosts = "strict", c.hosts
		v := policytest.Set(t, policytest.Options{Policies: c.policies}).Simulate(r, policy.Approval{}, nil)
		if v.Effect() != c.want || len(v.Errors()) > 0 {
			t.Errorf("%s: %s %v, want %s", c.name, v.Effect(), v.Errors(), c.want)
		}
	}
}
