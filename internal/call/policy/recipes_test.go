package policy_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Recipes of docs/policy-recipes.md that consist only of Cedar text.
const (
	twoApprovers = `@id("two-approvers")
@reason("programs need two people")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.approvers >= 2 };`

	twoFromSecurity = `@id("two-from-security")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.by_role.security >= 2 };`

	noStandingForDestructive = `@id("no-standing-for-destructive")
forbid(principal, action in Action::"tool.execute", resource)
when { resource.destructive && context.approval.standing };`

	onlyConsole = `@id("only-console")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.contains({ role: "*", surface: "console", paired: false, present: false }) };`

	securityOnConsole = `@id("security-on-console")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.contains({ role: "security", surface: "console", paired: true, present: true }) };`
)

var run = policytest.Request("process.run", `{"argv":["git","push"]}`)

var (
	carol = access.User("carol")
	dave  = access.User("dave")
	op    = access.RoleOperator
	sec   = access.Role("security")
)

func console(v policy.Vote) policy.Vote {
	v.Surface, v.Present = access.SurfaceConsole, true
	return v
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	bob := policytest.Vote(policytest.Bob, op)
	bobAgain := policytest.Vote(policytest.Bob, op)
	bobAgain.Surface = access.SurfaceTUI
	carolVote, daveVote := policytest.Vote(carol, op, sec), policytest.Vote(dave, op, sec)
	standing := func(a policy.Approval) policy.Approval { a.Standing = true; return a }
	cases := []struct {
		name, policies string
		approval       policy.Approval
		allowed        bool
	}{
		{"no rule, no approval", "", policytest.Approval(), false},
		{"no rule, one", "", policytest.Approval(bob), true},
		{"two approvers, one", twoApprovers, policytest.Approval(bob), false},
		{"two approvers, one twice", twoApprovers, policytest.Approval(bob, bobAgain), false},
		{"two approvers, two", twoApprovers, policytest.Approval(bob, carolVote), true},
		{"two from security, one of two", twoFromSecurity, policytest.Approval(bob, carolVote), false},
		{"two from security, two", twoFromSecurity, policytest.Approval(carolVote, daveVote), true},
		{"no standing rule, standing", "", standing(policytest.Approval(bob)), true},
		{"no standing, standing", noStandingForDestructive, standing(policytest.Approval(bob)), false},
		{"no standing, fresh", noStandingForDestructive, policytest.Approval(bob), true},
		{"only console, cli", onlyConsole, policytest.Approval(bob), false},
		{"only console, console", onlyConsole, policytest.Approval(console(bob)), true},
		{"security on console, bob on console", securityOnConsole, policytest.Approval(console(bob)), false},
		{"security on console, carol on cli", securityOnConsole, policytest.Approval(carolVote), false},
		{"security on console, bob there and carol on cli", securityOnConsole, policytest.Approval(console(bob), carolVote), false},
		{"security on console", securityOnConsole, policytest.Approval(console(carolVote)), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			set := policytest.Set(t, policytest.ManyMembers(c.policies))
			if got := set.Judge(run, c.approval); got.Allowed != c.allowed || len(got.Errors) > 0 {
				t.Errorf("Judge = %+v, want allowed %v", got, c.allowed)
			}
			v := set.Evaluate(run, nil)
			if v.Effect() != policy.Ask {
				t.Errorf("Evaluate = %v (%v, %v), want ask", v.Effect(), v.Missing(), v.Errors())
			}
		})
	}
}

func TestMissingApprovalIsReported(t *testing.T) {
	t.Parallel()
	bob := policytest.Vote(policytest.Bob, op)
	cases := []struct {
		name, policies string
		approval       policy.Approval
		want           string
	}{
		{"two approvers", twoApprovers, policytest.Approval(bob), "the approval of 1 person"},
		{"none of two", twoApprovers, policytest.Approval(), "the approval of 2 people"},
		{"security", twoFromSecurity, policytest.Approval(bob), "the approval of 2 people with role security"},
		{"console", onlyConsole, policytest.Approval(bob), "the approval of 1 person on console"},
		{"security on console", securityOnConsole, policytest.Approval(bob),
			"the approval of 1 person with role security on console, with presence proven, from a paired device"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			set := policytest.Set(t, policytest.ManyMembers(c.policies))
			if got := set.Judge(run, c.approval).Missing; got != c.want {
				t.Errorf("Missing = %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnattainable(t *testing.T) {
	t.Parallel()
	t.Run("role without members", func(t *testing.T) {
		o := policytest.ManyMembers(twoFromSecurity)
		o.Members = nil
		v := policytest.Set(t, o).Evaluate(run, nil)
		if v.Reason() != reason.ApprovalUnattainable || !strings.Contains(v.Missing(), "no member who may decide this has role security") {
			t.Errorf("got %v, %q", v.Reason(), v.Missing())
		}
		if !strings.Contains(v.Remedy(), "security") {
			t.Errorf("remedy %q does not name the role", v.Remedy())
		}
	})
	t.Run("too few hold the role", func(t *testing.T) {
		o := policytest.ManyMembers(twoFromSecurity)
		o.Members = o.Members[:1]
		v := policytest.Set(t, o).Evaluate(run, nil)
		if v.Reason() != reason.ApprovalUnattainable || !strings.Contains(v.Missing(), "too few") {
			t.Errorf("got %v, %q", v.Reason(), v.Missing())
		}
	})
	t.Run("too few people", func(t *testing.T) {
		v := policytest.Set(t, policytest.Options{Policies: twoApprovers}).Evaluate(run, nil)
		if v.Reason() != reason.ApprovalUnattainable || !strings.Contains(v.Missing(), "1 person may decide this") {
			t.Errorf("got %v, %q", v.Reason(), v.Missing())
		}
	})
	t.Run("an absolute forbid cannot be approved", func(t *testing.T) {
		never := `@id("never") @remedy("Use another tool.")
forbid(principal, action == Action::"tool.execute/process.run", resource);`
		v := policytest.Set(t, policytest.ManyMembers(never)).Evaluate(run, nil)
		if v.Reason() != reason.PolicyDenied || v.Missing() != "" || v.Remedy() != "Use another tool." {
			t.Errorf("got %v, %q, %q", v.Reason(), v.Missing(), v.Remedy())
		}
		if d := v.Determining(); len(d) != 1 || d[0].ID != "never" {
			t.Errorf("determining %v", d)
		}
	})
}

func TestApprovalAge(t *testing.T) {
	t.Parallel()
	young := `forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.granted && context.approval.age_seconds <= 60 };`
	set := policytest.Set(t, policytest.ManyMembers(young))
	vote := policytest.Vote(policytest.Bob, op)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Minute, true}, {time.Minute + time.Millisecond, false}, {time.Hour, false}} {
		a := policytest.Approval(vote)
		a.Now = policytest.Now.Add(c.after)
		if got := set.Judge(run, a); got.Allowed != c.want {
			t.Errorf("after %v: allowed %v, want %v", c.after, got.Allowed, c.want)
		}
	}
	// The oldest of several votes counts, in any order of the votes.
	older := policytest.Vote(carol, op)
	older.At = older.At.Add(-2 * time.Minute)
	for _, votes := range [][]policy.Vote{{vote, older}, {older, vote}} {
		if set.Judge(run, policytest.Approval(votes...)).Allowed {
			t.Error("a young vote made an old one young")
		}
	}
	// The age of a missing approval is not small.
	always := `@waives("approval: test")
permit(principal, action == Action::"tool.execute/process.run", resource)
when { context.approval.age_seconds <= 60 && context.egress.mode != "none" };`
	if policytest.Set(t, policytest.Options{Policies: strings.ReplaceAll(always, "@waives(\"approval: test\")", "")}).Judge(run, policy.Approval{}).Allowed {
		t.Error("no approval passed for a young one")
	}
}
