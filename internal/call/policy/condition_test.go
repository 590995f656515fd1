package policy_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
)

// conditionOf returns the condition that a verdict reports for the policy "rule".
func conditionOf(t *testing.T, text string, want policy.Effect) string {
	t.Helper()
	v := policytest.Set(t, policytest.ManyMembers(text)).Evaluate(run, nil)
	if v.Effect() != want {
		t.Fatalf("%s: %v %v, want %v", text, v.Effect(), v.Errors(), want)
	}
	for _, d := range v.Determining() {
		if d.ID == "rule" {
			return d.Condition
		}
	}
	t.Fatalf("%s: the rule did not determine the verdict: %v", text, v.Determining())
	return ""
}

const forbidRun = `@id("rule") forbid(principal, action == Action::"tool.execute/process.run", resource) `

func TestConditionOfAnAsk(t *testing.T) {
	t.Parallel()
	for clauses, want := range map[string]string{
		"unless { context.approval.approvers >= 2 }": "unless { context.approval.approvers >= 2 }",
		"when { resource.destructive && // why\n\t(context.risk >= 0) } unless { resource.read_only  &&  true || context.approval.approvers >= 2 }": "unless { resource.read_only && true || context.approval.approvers >= 2 }",
		"when { resource.destructive &&\n !context.approval.granted }":                                                                              "when { !context.approval.granted }",
		"when { resource.destructive && !context[\"approval\"].granted && resource.sensitive }":                                                     "when { !context[\"approval\"].granted }",
		`when { resource.destructive } unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: false, present: false }) && ` +
			`context.approval.approvers >= 2 }`: `unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: false, present: false }) && context.approval.approvers >= 2 }`,
		`unless { if resource.destructive then context.approval.granted else true && true }`: `unless { if resource.destructive then context.approval.granted else true && true }`,
	} {
		if got := conditionOf(t, forbidRun+clauses+";", policy.Ask); got != want {
			t.Errorf("%s:\n got %s\nwant %s", clauses, got, want)
		}
	}
	// The default permit that an approval satisfies is named too.
	v := policytest.Set(t, policytest.ManyMembers("")).Evaluate(run, nil)
	for _, d := range v.Determining() {
		if !strings.Contains(d.Condition, "context.approval.granted") || strings.Contains(d.Condition, "resource") {
			t.Errorf("%s: condition %q", d.ID, d.Condition)
		}
	}
}

func TestConditionOfADeny(t *testing.T) {
	t.Parallel()
	for clauses, want := range map[string]string{
		"": "",
		"when { resource.destructive\n  && context.args.argv.contains(\"push\") } unless { resource.read_only }": `when { resource.destructive && context.args.argv.contains("push") } unless { resource.read_only }`,
		// The condition may contain the approval.
		"when { resource.destructive } unless { context.approval.approvers >= 9 }": "when { resource.destructive } unless { context.approval.approvers >= 9 }",
	} {
		if got := conditionOf(t, forbidRun+clauses+";", policy.Deny); got != want {
			t.Errorf("%s:\n got %s\nwant %s", clauses, got, want)
		}
	}
	long := conditionOf(t, forbidRun+`when { resource.name != "`+strings.Repeat("é", 400)+`" };`, policy.Deny)
	if utf8.RuneCountInString(long) != 300 || !strings.HasSuffix(long, "é...") {
		t.Errorf("a long condition has %d characters: %s", utf8.RuneCountInString(long), long)
	}
}

// A timeout applies if only one of two files in a call matches its rule.
func TestTimeoutOverSeveralFiles(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.ManyMembers(`@id("rule") @timeout("90s")
forbid(principal, action == Action::"tool.execute/process.run", resource)
when { context has path && context.path == "slow" } unless { context.approval.granted };`))
	for _, paths := range [][]string{{"a", "slow"}, {"slow", "a"}} {
		r := run
		r.Facts.Paths = paths
		if v := set.Evaluate(r, nil); v.Effect() != policy.Ask || v.Timeout() != 90*time.Second {
			t.Errorf("%v: %v, %v, want ask and 90s", paths, v.Effect(), v.Timeout())
		}
	}
}
