package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// onHost returns a call whose program has network access in a given mode.
func onHost(mode string) policy.Request {
	r := policytest.Request("process.run", `{"argv":["make"]}`)
	r.Facts.EgressMode = mode
	return r
}

const hostNetwork = `@id("make-on-host") @waives("approval: test")
permit(principal, action == Action::"tool.execute/process.run", resource)
when { context.egress.mode == "none" && context.args.argv.contains("make") };`

// TestPermitsForAgentToolsNameTheTier: a permit for a tool that an agent runs itself must name
// the tier or the network. Naming that tier does not permit programs that the gateway runs.
func TestPermitsForAgentToolsNameTheTier(t *testing.T) {
	t.Parallel()
	bash := policytest.Run
	bash.Name, bash.Executor = "claude-code/Bash", tool.External
	options := policytest.Options{Tools: []tool.Descriptor{bash}}
	for permit, loads := range map[string]bool{
		`action == Action::"tool.execute/claude-code/Bash", resource)`:                                                      false,
		`action == Action::"tool.execute/claude-code/Bash", resource) when { context.sandbox.tier == "external" }`:          true,
		`action == Action::"tool.execute/claude-code/Bash", resource) when { context.egress.mode == "none" }`:               true,
		`action == Action::"tool.execute/process.run", resource) when { context.sandbox.tier == "external" }`:               true,
		`action == Action::"tool.execute/process.run", resource) when { context.sandbox.tier != "external" }`:               false,
		`action == Action::"tool.execute/process.run", resource) when { context.sandbox.tier == "b" }`:                      false,
		`action == Action::"tool.execute/process.run", resource) when { context.sandbox.tier != "c" }`:                      false,
		`action == Action::"tool.execute/process.run", resource) when { ["external", "c"].contains(context.sandbox.tier) }`: false,
	} {
		options.Policies = `@id("a") @waives("approval: test") permit(principal, ` + permit + ";"
		if _, err := policy.Load(policytest.Config(options)); (err == nil) != loads || !loads && !strings.Contains(err.Error(), "network of the host") {
			t.Errorf("%s: %v", permit, err)
		}
	}
}

// A program gets the network of the host only from a permit that names it, not from an approval
// or a setting. Control: with the permit, the program runs.
func TestHostNetworkNeedsAPermit(t *testing.T) {
	t.Parallel()
	everything := policy.Snapshot{AllowSensitiveTools: true}
	vote := policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner))
	for _, c := range []struct {
		name string
		o    policytest.Options
		mode string
		a    policy.Approval
		want policy.Effect
	}{
		{"the defaults", policytest.Options{}, "none", policy.Approval{}, policy.Deny},
		{"an approval", policytest.Options{}, "none", vote, policy.Deny},
		{"allow_sensitive_tools", policytest.Options{Snapshot: everything}, "none", vote, policy.Deny},
		{"a permit that says so", policytest.Options{Policies: hostNetwork}, "none", policy.Approval{}, policy.Allow},
		{"the control: offline", policytest.Options{}, "strict", policy.Approval{}, policy.Ask},
		{"the control: approved", policytest.Options{}, "strict", vote, policy.Allow},
		{"the control: preflight", policytest.Options{Snapshot: everything}, "preflight", policy.Approval{}, policy.Allow},
		{"the control: a tool without a mode", policytest.Options{Snapshot: everything}, "", policy.Approval{}, policy.Allow},
	} {
		v := policytest.Set(t, c.o).Simulate(onHost(c.mode), c.a, nil)
		if v.Effect() != c.want || len(v.Errors()) > 0 {
			t.Errorf("%s: %s %v, want %s", c.name, v.Effect(), v.Errors(), c.want)
		}
	}
}

func TestHostNetworkIsExplained(t *testing.T) {
	t.Parallel()
	e := explain.Verdict(policytest.Set(t, policytest.Options{}), onHost("none"), policy.Approval{}, nil)
	if e.Effect != policy.Deny || !strings.Contains(e.Nearest.String(), `context.egress.mode != "none" || context.sandbox.tier == "external" is false`) {
		t.Errorf("nearest %s", e.Nearest)
	}
	var says strings.Builder
	for _, f := range e.Flips {
		says.WriteString(f.Summary + "\n")
	}
	if !strings.Contains(says.String(), `permit(principal == Agent::"coder", action == Action::"tool.execute/process.run", resource) when { context.egress.mode == "none"`) {
		t.Errorf("flips %s", says.String())
	}
}
