package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// commit returns a request about the changes of an agent's program.
func commit(change func(*tool.CommitFacts)) policy.Request {
	r := policytest.Request("process.run", "")
	r.Commit = &tool.CommitFacts{Workspace: "default", Root: "sha256:" + strings.Repeat("ab", 32), Added: 1, Bytes: 10}
	if change != nil {
		change(r.Commit)
	}
	return r
}

func hook(f *tool.CommitFacts) {
	f.Protected, f.Classes = []string{".git/hooks/pre-commit"}, []string{"git"}
}

func makefile(f *tool.CommitFacts) { f.Protected, f.Classes = []string{"Makefile"}, []string{"runner"} }

// The default policies allow ordinary changes and require approval for protected ones.
// Dangerous changes have a higher severity.
func TestDefaultCommits(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{TwoUsers: true})
	bob := policytest.Approval(policytest.Vote(policytest.Bob, op))
	for _, c := range []struct {
		name     string
		request  policy.Request
		votes    policy.Approval
		effect   policy.Effect
		by       []string
		severity string
	}{
		{"ordinary", commit(nil), policy.Approval{}, policy.Allow, []string{"commit.ordinary"}, ""},
		{"a failed program", commit(func(f *tool.CommitFacts) { f.ExitCode = 1 }), policy.Approval{}, policy.Allow, []string{"commit.ordinary"}, ""},
		{"a hook", commit(hook), policy.Approval{}, policy.Ask, []string{"commit.dangerous-approved", "commit.protected-approved"}, "high"},
		{"a Makefile", commit(makefile), policy.Approval{}, policy.Ask, []string{"commit.protected-approved"}, "medium"},
		{"a path without a class", commit(func(f *tool.CommitFacts) { f.Protected = []string{"x"} }), policy.Approval{}, policy.Ask, []string{"commit.protected-approved"}, "medium"},
		{"a class without a path", commit(func(f *tool.CommitFacts) { f.Classes = []string{"special"} }), policy.Approval{}, policy.Ask, []string{"commit.dangerous-approved", "commit.protected-approved"}, "high"},
		{"an approved hook", commit(hook), bob, policy.Allow, []string{"commit.dangerous-approved", "commit.protected-approved"}, ""},
	} {
		v := set.Simulate(c.request, c.votes, nil)
		var by []string
		for _, d := range v.Determining() {
			by = append(by, d.ID)
		}
		if v.Effect() != c.effect || !slices.Equal(by, c.by) || v.Severity() != c.severity || len(v.Errors()) > 0 {
			t.Errorf("%s: %s by %v, severity %q, %v", c.name, v.Effect(), by, v.Severity(), v.Errors())
		}
	}
}

// A commit requires an allowed member. A workspace that is not declared is treated like any
// other.
func TestWhoCommits(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{})
	stranger := commit(nil)
	stranger.Caller.Principal.Name = "unknown"
	if v := set.Evaluate(stranger, nil); v.Effect() != policy.Deny || v.Reason() != reason.PolicyDenied {
		t.Errorf("a stranger: %s %s", v.Effect(), v.Reason())
	}
	gone := commit(nil)
	gone.Tool = "no.such"
	if v := set.Evaluate(gone, nil); v.Reason() != reason.UnknownTool {
		t.Errorf("a tool without a pin: %s", v.Reason())
	}
	other := commit(func(f *tool.CommitFacts) { f.Workspace = "undeclared" })
	if v := set.Evaluate(other, nil); v.Effect() != policy.Allow {
		t.Errorf("a workspace that is not declared: %s %v", v.Effect(), v.Errors())
	}
	one := policytest.Set(t, policytest.Options{Policies: `@id("main-only")
forbid(principal, action == Action::"workspace.commit", resource) unless { resource.name == "default" && resource == Workspace::"default" };`})
	if v := one.Evaluate(other, nil); v.Effect() != policy.Deny {
		t.Errorf("a workspace that is forbidden: %s", v.Effect())
	}
	if v := one.Evaluate(commit(nil), nil); v.Effect() != policy.Allow {
		t.Errorf("the control: %s %v", v.Effect(), v.Errors())
	}
}

// A commit is decided as a whole, separately from its call.
func TestCommitRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, policies string
		request        policy.Request
		want           policy.Effect
	}{
		{"exit code", `forbid(principal, action == Action::"workspace.commit", resource) unless { context.exit_code == 0 };`,
			commit(func(f *tool.CommitFacts) { f.ExitCode = -1 }), policy.Deny},
		{"exit code, control", `forbid(principal, action == Action::"workspace.commit", resource) unless { context.exit_code == 0 };`,
			commit(nil), policy.Allow},
		{"no protected path", `forbid(principal, action == Action::"workspace.commit", resource) unless { context.changes.protected.isEmpty() };`,
			commit(makefile), policy.Deny},
		{"no approver needed", `forbid(principal, action == Action::"workspace.commit", resource)
when { context.changes.classes.contains("git") } unless { context.approval.approvers >= 2 };`, commit(hook), policy.Deny},
		{"too much", `forbid(principal, action == Action::"workspace.commit", resource) when { context.changes.deleted > 100 };`,
			commit(func(f *tool.CommitFacts) { f.Deleted = 101 }), policy.Deny},
		{"a rule for calls", `forbid(principal, action in Action::"tool.execute", resource);`, commit(nil), policy.Allow},
		{"a waiver", `@waives("approval: test") permit(principal, action == Action::"workspace.commit", resource) when { context.changes.classes == ["runner"] };`,
			commit(makefile), policy.Allow},
		{"a waiver for others", `@waives("approval: test") permit(principal, action == Action::"workspace.commit", resource) when { context.changes.classes == ["runner"] };`,
			commit(hook), policy.Ask},
	} {
		set := policytest.Set(t, policytest.Options{Policies: c.policies})
		c.request.Facts.Paths = []string{"a", "b"}
		if v := set.Evaluate(c.request, nil); v.Effect() != c.want || len(v.Errors()) > 0 {
			t.Errorf("%s: %s %v, want %s", c.name, v.Effect(), v.Errors(), c.want)
		}
	}
}

// An explanation of a commit names the rule and what would change it.
func TestExplainCommit(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{Policies: `@id("no-hooks") @remedy("leave them alone")
forbid(principal, action == Action::"workspace.commit", resource)
when { context.changes.classes.contains("git") };`})
	e := explain.Verdict(set, commit(hook), policy.Approval{}, nil)
	if e.Effect != policy.Deny || e.Remedy != "leave them alone" || !strings.Contains(e.Summary, "no-hooks (test.cedar:1)") {
		t.Errorf("got %s", e.Summary)
	}
	if e.Policies[0].ID != "no-hooks" || e.Policies[0].Conjuncts[0].Values[0].Path != "context.changes.classes" {
		t.Errorf("got %+v", e.Policies[0])
	}
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(e.Context, &shown); err != nil || shown["changes"] == nil || shown["args"] != nil || shown["exit_code"] == nil {
		t.Errorf("the context is %s, %v", e.Context, err)
	}
	// The requester cannot choose the changes of a program, so the explanation proposes a change
	// of the rule.
	if len(e.Flips) != 1 || e.Flips[0].Steps[0].Kind != explain.StepPolicy || e.Flips[0].Steps[0].Path != "no-hooks" {
		t.Errorf("flips %+v", e.Flips)
	}
	ask := explain.Verdict(policytest.Set(t, policytest.Options{}), commit(hook), policy.Approval{}, nil)
	if ask.Effect != policy.Ask || len(ask.Flips) == 0 || ask.Flips[0].Steps[0].Kind != explain.StepApproval || ask.Flips[0].Verdict != policy.Allow {
		t.Errorf("an ask: %s, %+v", ask.Summary, ask.Flips)
	}
	// The explanation proposes a permit if none covers commits.
	bare := policytest.Set(t, policytest.Options{Policies: `forbid(principal, action == Action::"workspace.commit", resource) unless { context.approval.approvers > 90 };`})
	if e := explain.Verdict(bare, commit(nil), policy.Approval{}, nil); e.Effect != policy.Deny || len(e.Flips) == 0 {
		t.Errorf("got %s", e.Summary)
	}
}

// A request whose facts describe changes becomes a request about a commit.
func TestDescribedCommit(t *testing.T) {
	t.Parallel()
	r := policytest.Request("process.run", "")
	text := `{"workspace":"default","changes":{"modified":2,"protected":["b",".git/config"],"classes":["git"]},"exit_code":3,"sandbox":{"layers":["seccomp","landlock"]}}`
	must.Do(t, policytests.ReplaceFacts(&r, []byte(text)))
	c := r.Commit
	if c == nil || c.Workspace != "default" || c.Modified != 2 || c.ExitCode != 3 || !slices.Equal(c.Protected, []string{".git/config", "b"}) {
		t.Fatalf("got %+v", c)
	}
	if !slices.Equal(r.Facts.SandboxLayers, []string{"landlock", "seccomp"}) {
		t.Errorf("layers %v", r.Facts.SandboxLayers)
	}
	// Omitted facts stay unchanged, and null turns the request back into a call.
	if err := policytests.ReplaceFacts(&r, []byte(`{"exit_code":0}`)); err != nil || r.Commit.ExitCode != 0 || len(r.Commit.Protected) != 2 {
		t.Errorf("got %+v, %v", r.Commit, err)
	}
	if err := policytests.ReplaceFacts(&r, []byte(`{"changes":null,"exit_code":null}`)); err != nil || r.Commit != nil {
		t.Errorf("got %+v, %v", r.Commit, err)
	}
}

// A commit request survives a JSON round trip. A request that was journaled before commits
// existed can still be read.
func TestCommitRequestRoundTrips(t *testing.T) {
	t.Parallel()
	r := commit(hook)
	text := must.Get(json.Marshal(r))(t)
	var back policy.Request
	must.Do(t, json.Unmarshal(text, &back))
	again, _ := json.Marshal(back)
	if string(again) != string(text) {
		t.Errorf("%s\nbecame\n%s", text, again)
	}
	old := `{"caller":{"principal":"agent:coder","on_behalf_of":"user:alice"},"tool":"process.run","capabilities":["process_exec"],` +
		`"args":{"argv":["git"]},"session":"s","run":"r","channel":"","skill_id":"","facts":{"workspace":"default",` +
		`"exec":{"basename":"git","path":"/usr/bin/git","sha256":"","is_interpreter":false,"inline_code":false},"risk":0,` +
		`"sandbox_tier":"c","sandbox_level":"strict","egress_mode":"strict"},"session_facts":{},"time":"2026-03-02T10:00:00Z"}`
	var before policy.Request
	must.Do(t, json.Unmarshal([]byte(old), &before))
	set := policytest.Set(t, policytest.Options{Policies: `@id("new-facts") forbid(principal, action == Action::"tool.execute/process.run", resource)
when { context has exec && !context.exec.in_workspace && context.exec.shebang == "" && context.workspace_mode == "" &&
context.sandbox.layers.isEmpty() && context.sandbox.rung == "" && context.sandbox.limits == "" };`})
	v := set.Evaluate(before, nil)
	if v.Effect() != policy.Deny || len(v.Errors()) > 0 || v.Determining()[0].ID != "new-facts" {
		t.Errorf("a request without the new facts: %s %v %v", v.Effect(), v.Errors(), v.Determining())
	}
}
