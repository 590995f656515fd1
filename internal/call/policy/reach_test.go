package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// terminal sets options for a gateway that accepts votes only on cli and grpc and cannot verify
// presence.
func terminal(o policytest.Options) policytest.Options {
	o.Surfaces, o.NoPresence = []access.Surface{access.SurfaceCLI, access.SurfaceGRPC}, true
	return o
}

// voteRule returns a rule that forbids a call unless such votes were cast, one for each
// surface.
func voteRule(present bool, on ...access.Surface) string {
	var wants []string
	for _, surface := range on {
		wants = append(wants, fmt.Sprintf(
			`context.approval.votes.contains({ role: "*", surface: %q, paired: false, present: %v })`, surface, present))
	}
	return `@id("rule") forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { ` + strings.Join(wants, " && ") + ` };`
}

// TestUnreachableApproversAreDenied: a call that no member can approve on this gateway is
// denied immediately.
func TestUnreachableApproversAreDenied(t *testing.T) {
	t.Parallel()
	present := `@id("rule") forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.containsAny([
	{ role: "*", surface: "cli", paired: false, present: true }, { role: "*", surface: "console", paired: false, present: true }]) };`
	console := `@id("rule") forbid(principal is User, action == Action::"approval.decide", resource) unless { context.surface == "console" };`
	for name, c := range map[string]struct{ policies, missing, remedy string }{
		"a console": {onlyConsole, "an approval on console, and no console is available",
			"No console is available in this version. Ask an operator to change the policy so that it accepts an approval on cli or grpc."},
		"presence": {present, "an approver who proves to be present, and presence cannot be proven",
			"Presence cannot be proven in this version. Ask an operator to change the policy."},
		"a console and presence": {securityOnConsole, "an approval on console and an approver who proves to be present", "No console is available in this version, and presence"},
		"a webhook and a console": {voteRule(false, "webhook", "cli", "console"), "an approval on console and webhook",
			"No console and no webhook is available"},
		"the right to decide only on the console": {console, "an approval on console", "No console is available"},
	} {
		t.Run(name, func(t *testing.T) {
			v := policytest.Set(t, terminal(policytest.ManyMembers(c.policies))).Evaluate(run, nil)
			if v.Effect() != policy.Deny || v.Reason() != reason.ApprovalUnattainable {
				t.Fatalf("%v %v %v, want a deny with %v", v.Effect(), v.Reason(), v.Errors(), reason.ApprovalUnattainable)
			}
			if !strings.Contains(v.Missing(), c.missing) || !strings.Contains(v.Remedy(), c.remedy) {
				t.Errorf("missing %q, remedy %q", v.Missing(), v.Remedy())
			}
			// Negative control: a gateway with all surfaces asks.
			if v := policytest.Set(t, policytest.ManyMembers(c.policies)).Evaluate(run, nil); v.Effect() != policy.Ask {
				t.Errorf("with every surface: %v (%s), want ask", v.Effect(), v.Missing())
			}
		})
	}
}

// TestReachableApproversAreAsked: an approval is requested if a member can give it, and the
// request lists only the available ways.
func TestReachableApproversAreAsked(t *testing.T) {
	t.Parallel()
	for policies, missing := range map[string]string{
		"":                             "the approval of 1 person",
		voteRule(false, "cli"):         "the approval of 1 person on cli",
		voteRule(false, "cli", "grpc"): "the approval of 1 person",
		twoFromSecurity:                "the approval of 2 people with role security",
	} {
		v := policytest.Set(t, terminal(policytest.ManyMembers(policies))).Evaluate(run, nil)
		if v.Effect() != policy.Ask || v.Missing() != missing {
			t.Errorf("%s: %v, %q; want ask, %q", policies, v.Effect(), v.Missing(), missing)
		}
	}
	// The reason names the people if too few of them may approve.
	v := policytest.Set(t, terminal(policytest.Options{Policies: twoApprovers})).Evaluate(run, nil)
	if v.Reason() != reason.ApprovalUnattainable || !strings.Contains(v.Missing(), "1 person may decide this") {
		t.Errorf("too few people: %v, %q", v.Reason(), v.Missing())
	}
	// A call that no approval allows is denied for the policy.
	never := `@id("never") forbid(principal, action == Action::"tool.execute/process.run", resource);`
	if v := policytest.Set(t, terminal(policytest.ManyMembers(never))).Evaluate(run, nil); v.Reason() != reason.PolicyDenied {
		t.Errorf("an absolute forbid: %v", v.Reason())
	}
}

// A vote from an unavailable surface does not count.
func TestVotesFromUnavailableSurfacesDoNotCount(t *testing.T) {
	t.Parallel()
	vote := console(policytest.Vote(policytest.Bob, op))
	if !policytest.Set(t, policytest.ManyMembers("")).Judge(run, policytest.Approval(vote)).Allowed {
		t.Error("control: the vote counts nowhere")
	}
	if policytest.Set(t, terminal(policytest.ManyMembers(""))).Judge(run, policytest.Approval(vote)).Allowed {
		t.Error("a vote from a console counts although there is none")
	}
}

func TestReachableSurfacesAreConfigured(t *testing.T) {
	t.Parallel()
	plain, limited := policytest.Set(t, policytest.ManyMembers("")), policytest.Set(t, terminal(policytest.ManyMembers("")))
	if plain.SnapshotDigest() == limited.SnapshotDigest() {
		t.Error("the snapshot does not say which surfaces there are")
	}
	o := policytest.ManyMembers("")
	o.Surfaces = []access.Surface{"fax"}
	if _, err := policy.Load(policytest.Config(o)); reason.Of(err) != reason.PolicyInvalid {
		t.Errorf("an unknown surface: %v", err)
	}
	o.Surfaces = []access.Surface{}
	if v := policytest.Set(t, o).Evaluate(run, nil); v.Reason() != reason.ApprovalUnattainable {
		t.Errorf("with no surface at all: %v", v.Reason())
	}
}

// At least one approver must have a presence key if policies require votes with verified
// presence.
func TestNobodyPresent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text     string
		proving  []access.Principal
		reported bool
	}{
		"nothing asks":                               {reported: false},
		"no proof of presence demanded":              {text: strings.Replace(presentVote, "present: true", "present: false", 1)},
		"a vote without approvers":                   {text: presentVote, reported: true},
		"a vote, and an operator":                    {text: presentVote, proving: []access.Principal{policytest.Bob}},
		"a vote, and a key of a user without a role": {text: presentVote, proving: []access.Principal{access.User("nobody")}, reported: true},
		"deciding roles without members":             {text: presentDecider, reported: true},
		"deciding roles, and an operator":            {text: presentDecider, proving: []access.Principal{policytest.Bob}},
	} {
		t.Run(name, func(t *testing.T) {
			problem, remedy := policytest.Set(t, policytest.ManyMembers(c.text)).View().NobodyPresent(c.proving)
			if reported := problem != ""; reported != c.reported || reported && (!strings.Contains(problem, "no approver has") || !strings.Contains(remedy, "palyra key presence --passphrase")) {
				t.Errorf("the problem is %q, the remedy %q", problem, remedy)
			}
		})
	}
}

const (
	presentVote = `@id("there") forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: true, present: true }) };`
	presentDecider = `@id("there") forbid(principal, action == Action::"approval.decide", resource) unless { context.present };`
)
