package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/tool"
)

// injectRequest returns a request to inject a secret into the program of a call.
func injectRequest(secret string) policy.Request {
	r := policytest.Request("process.run", "")
	r.Facts.Exec = &tool.ExecFacts{Basename: "git", Path: "/usr/bin/git", Origin: tool.OriginSystem}
	r.Injection = &tool.Injection{Secret: secret, Version: 2, Env: "KEY"}
	return r
}

// TestInjection: by default, a secret is injected only after a person approved it for this
// call. Policies can forbid the injection, or explicitly waive the approval.
func TestInjection(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		policies string
		want     policy.Effect
	}{
		"default":    {"", policy.Ask},
		"forbidden":  {`forbid(principal, action == Action::"secret.inject", resource) when { resource.name == "global/key" };`, policy.Deny},
		"of another": {`forbid(principal, action == Action::"secret.inject", resource) when { resource.scope == "user:ann" };`, policy.Ask},
		"elsewhere":  {`forbid(principal, action == Action::"secret.inject", resource) when { context.injection.env != "KEY" || context.injection.version != 2 || !(context has exec && context.exec.path == "/usr/bin/git") };`, policy.Ask},
		"waived":     {`@waives("approval: test") permit(principal, action == Action::"secret.inject", resource) when { context.tool_name == "process.run" && context.injection.file == "" };`, policy.Allow},
		"of tools":   {`@waives("approval: test") permit(principal, action in Action::"tool.execute", resource) when { context.egress.mode != "none" };`, policy.Ask},
	} {
		set := policytest.Set(t, policytest.Options{Policies: row.policies})
		if v := set.Evaluate(injectRequest("global/key"), nil); v.Effect() != row.want {
			t.Errorf("%s: %s %s %v, want %s", name, v.Effect(), v.Reason(), v.Errors(), row.want)
		}
	}
	set := policytest.Set(t, policytest.Options{TwoUsers: true})
	yes := policytest.Approval(policytest.Vote(policytest.Bob, op))
	if !set.Judge(injectRequest("global/key"), yes).Allowed {
		t.Error("a person's yes is not enough")
	}
	if yes.Standing = true; set.Judge(injectRequest("global/key"), yes).Allowed {
		t.Error("a grant gives a program a secret")
	}
	stranger := injectRequest("global/key")
	if stranger.Caller.Principal.Name = "unknown"; set.Evaluate(stranger, nil).Effect() != policy.Deny {
		t.Error("people are asked about secrets for strangers")
	}
}

// TestInjectionWaiver: a permit that injects secrets without an approval must have the waives
// annotation.
func TestInjectionWaiver(t *testing.T) {
	t.Parallel()
	bare := `@id("bare") permit(principal, action == Action::"secret.inject", resource);`
	for text, want := range map[string]bool{bare: true, `@waives("approval: test") ` + bare: false} {
		_, err := policy.Load(policytest.Config(policytest.Options{Policies: text}))
		if got := err != nil && strings.Contains(err.Error(), "waives_approval"); got != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
