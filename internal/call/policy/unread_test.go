package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// TestUnreadPrograms: a permit that waives approval does not cover a call that sets variables,
// or whose program starts another one, unless the permit reads which ones. An approval can
// allow the call.
func TestUnreadPrograms(t *testing.T) {
	t.Parallel()
	const (
		harmless = `context has exec && context.exec.basename == "curl"`
		goroot   = harmless + ` && ["GOROOT"].containsAll(context.exec.env)`
		starts   = harmless + ` && ["rm"].containsAll(context.exec.starts)`
	)
	for name, row := range map[string]struct {
		condition   string
		env, starts []string
		want        policy.Effect
	}{
		"control":                  {harmless, nil, nil, policy.Allow},
		"variable":                 {harmless, []string{"OPENSSL_CONF"}, nil, policy.Ask},
		"variable that is listed":  {goroot, []string{"GOROOT"}, nil, policy.Allow},
		"variable that is not":     {goroot, []string{"GOROOT", "JAVA_HOME"}, nil, policy.Ask},
		"variable not known":       {goroot, []string{"?"}, nil, policy.Ask},
		"read in another way":      {`context has exec && !(context["exec"]["env"].contains("GOROOT"))`, []string{"A"}, nil, policy.Allow},
		"no variable, and read":    {goroot, nil, nil, policy.Allow},
		"exec as a whole":          {harmless + ` && context.exec == context.exec`, []string{"A"}, nil, policy.Ask},
		"inner command":            {harmless, nil, []string{"rm"}, policy.Ask},
		"inner command listed":     {starts, nil, []string{"rm"}, policy.Allow},
		"inner command not listed": {starts, nil, []string{"curl"}, policy.Ask},
		"inner command not known":  {starts, nil, []string{"?"}, policy.Ask},
		"one of two is read":       {starts, []string{"GOROOT"}, []string{"rm"}, policy.Ask},
		"both are read":            {goroot + ` && context.exec.starts.isEmpty()`, []string{"GOROOT"}, nil, policy.Allow},
	} {
		call := policytest.Request("process.run", `{"argv":["curl"]}`)
		call.Facts.Exec = &tool.ExecFacts{Basename: "curl", Path: "/usr/bin/curl", Env: row.env, Starts: row.starts}
		set := policytest.Set(t, policytest.Options{Policies: `@id("w") @waives("approval: test") permit(principal, action == Action::"tool.execute/process.run", resource) when { ` + row.condition + ` && context.egress.mode != "none" };`})
		if v := set.Evaluate(call, nil); v.Effect() != row.want {
			t.Errorf("%s: %s %s %v, want %s", name, v.Effect(), v.Reason(), v.Errors(), row.want)
		}
		if j := set.Judge(call, policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner))); !j.Allowed {
			t.Errorf("%s: people cannot allow the call: %+v", name, j)
		}
	}
}

// TestUnreadInlineCode: a permit that waives approval does not cover inline code for an
// interpreter unless the permit reads that fact. A shell line is itself such code.
func TestUnreadInlineCode(t *testing.T) {
	t.Parallel()
	const awk = `context has exec && context.exec.basename == "awk"`
	for name, row := range map[string]struct {
		condition    string
		inline, line bool
		want         policy.Effect
	}{
		"control":           {awk, false, false, policy.Allow},
		"code":              {awk, true, false, policy.Ask},
		"code that is read": {awk + ` && (context.exec.inline_code || context.exec.origin == "system")`, true, false, policy.Allow},
		"code refused":      {awk + ` && !context.exec.inline_code`, true, false, policy.Ask},
		"line":              {awk, true, true, policy.Allow},
	} {
		call := policytest.Request("process.run", `{"argv":["awk"]}`)
		call.Facts.Exec = &tool.ExecFacts{Basename: "awk", Path: "/usr/bin/awk", InlineCode: row.inline}
		if row.line {
			call.Facts.Shell = &tool.ShellFacts{}
		}
		set := policytest.Set(t, policytest.Options{Policies: `@id("w") @waives("approval: test") permit(principal, action == Action::"tool.execute/process.run", resource) when { ` + row.condition + ` && context.egress.mode != "none" };`})
		if v := set.Evaluate(call, nil); v.Effect() != row.want {
			t.Errorf("%s: %s %s %v, want %s", name, v.Effect(), v.Reason(), v.Errors(), row.want)
		}
	}
}

// TestUnreadOfOthers: the rule also covers the secrets of a call. It does not cover other
// policies, or the permit of allow_sensitive_tools, which is unrestricted.
func TestUnreadOfOthers(t *testing.T) {
	t.Parallel()
	secret := injectRequest("global/key")
	call := policytest.Request("process.run", `{"argv":["git"]}`)
	call.Facts.Exec = &tool.ExecFacts{Basename: "git", Path: "/usr/bin/git"}
	waives := policytest.Options{Policies: `@waives("approval: test") permit(principal, action == Action::"secret.inject", resource);`}
	forbids := policytest.Options{Policies: `forbid(principal, action == Action::"tool.execute/process.run", resource) when { context has exec && context.exec.basename == "git" };`}
	everything := policytest.Options{Snapshot: policy.Snapshot{AllowSensitiveTools: true}}
	for name, row := range map[string]struct {
		options     policytest.Options
		call        policy.Request
		plain, with policy.Effect
	}{
		"secret":                {waives, secret, policy.Allow, policy.Ask},
		"forbid":                {forbids, call, policy.Deny, policy.Deny},
		"allow_sensitive_tools": {everything, call, policy.Allow, policy.Allow},
	} {
		set := policytest.Set(t, row.options)
		if v := set.Evaluate(row.call, nil); v.Effect() != row.plain {
			t.Errorf("%s: %s, want %s", name, v.Effect(), row.plain)
		}
		exec := *row.call.Facts.Exec
		exec.Env = []string{"GOROOT"}
		if row.call.Facts.Exec = &exec; set.Evaluate(row.call, nil).Effect() != row.with {
			t.Errorf("%s with a variable: want %s", name, row.with)
		}
	}
}
