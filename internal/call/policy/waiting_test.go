package policy_test

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// upstreamTool is a tool of a server, with an argument.
func upstreamTool(name string) tool.Descriptor {
	d := policytest.Fetch
	d.Name, d.AlwaysSensitive = name, true
	return d
}

// own returns the findings about policies.
func own(s *policy.Set) []finding.Finding {
	return slices.DeleteFunc(s.Findings(), func(f finding.Finding) bool { return f.Code == finding.CodeOpaque })
}

// TestPoliciesWaitForTools: a policy that names a tool of an absent server loads, reports the
// missing tool, and allows no call of it. The same policy decides once the tool exists.
func TestPoliciesWaitForTools(t *testing.T) {
	t.Parallel()
	const permit = `@id("docs.search") @reason("docs") @waives("approval: a test")
permit(principal, action == Action::"tool.execute/docs/search", resource) when { context.args.url == "x" && context.egress.mode != "none" };`
	waits := policytest.Set(t, policytest.Options{Policies: permit})
	found := own(waits)
	if len(found) != 1 || found[0].Severity != finding.SeverityWarning || found[0].Code != finding.CodeWaiting || !strings.Contains(found[0].Message, "docs/search") ||
		!strings.Contains(found[0].Help, "palyra mcp add docs") {
		t.Errorf("found %+v", found)
	}
	if v := waits.Evaluate(policytest.Request("docs/search", `{"url":"x"}`), nil); v.Effect() != policy.Deny || v.Reason() != reason.UnknownTool {
		t.Errorf("the tool that is not there: %v, %s", v.Effect(), v.Reason())
	}
	for _, entry := range waits.Catalog().Tools(policytest.Request("fs.read", `{}`).Caller) {
		if entry.Tool == "docs/search" {
			t.Error("the tool that is not there is listed")
		}
	}
	there := policytest.Set(t, policytest.Options{Policies: permit, Tools: []tool.Descriptor{upstreamTool("docs/search")}})
	if found := own(there); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
	for input, want := range map[string]policy.Effect{`{"url":"x"}`: policy.Allow, `{"url":"y"}`: policy.Ask} {
		if got := there.Evaluate(policytest.Request("docs/search", input), nil).Effect(); got != want {
			t.Errorf("%s: %v, want %v", input, got, want)
		}
	}
}

// TestForbidsThatWaitFailClosed: a forbid applies to the present tools that it covers, even if
// it also names an absent tool.
func TestForbidsThatWaitFailClosed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"several actions": `@id("no") @reason("no") forbid(principal, action in [Action::"tool.execute/docs/delete", Action::"tool.execute/fs.read"], resource);`,
		"all but one":     `@id("no") @reason("no") forbid(principal, action in Action::"tool.execute", resource) unless { action == Action::"tool.execute/docs/search" };`,
		"a resource":      `@id("no") @reason("no") forbid(principal, action in Action::"tool.execute", resource) unless { resource == Tool::"docs/search" };`,
	} {
		set := policytest.Set(t, policytest.Options{Policies: text})
		if got := set.Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil).Effect(); got != policy.Deny {
			t.Errorf("%s: fs.read is %v", name, got)
		}
	}
	// Control: without the rule the call is allowed.
	if got := policytest.Set(t, policytest.Options{}).Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil).Effect(); got != policy.Allow {
		t.Errorf("control: fs.read is %v", got)
	}
}

// TestErrorsAreNotDeferred: a name that no server could provide is an error. A tool that a
// present server does not have is an error as well. Other errors of a waiting policy are still
// reported.
func TestErrorsAreNotDeferred(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no server": {`forbid(principal, action == Action::"tool.execute/fs.raed", resource);`, "fs.raed"},
		"a tool that is not there of a server that is": {`forbid(principal, action == Action::"tool.execute/docs/serach", resource);`, "docs/serach"},
		"a role":                              {`forbid(principal in Role::"ownr", action == Action::"tool.execute/other/x", resource);`, "ownr"},
		"a fact":                              {`forbid(principal, action in [Action::"tool.execute/other/x", Action::"tool.execute/fs.read"], resource) when { context.pahts == 1 };`, "pahts"},
		"an argument of a tool that is there": {`forbid(principal, action in [Action::"tool.execute/other/x", Action::"tool.execute/fs.read"], resource) when { context.args.pahts == "1" };`, "pahts"},
	} {
		options := policytest.Options{Policies: `@id("x") @reason("x") ` + c.text, Tools: []tool.Descriptor{upstreamTool("docs/search")}}
		_, err := policy.Load(policytest.Config(options))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
