package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

func did(kind provenance.Kind, member access.Principal, by ...access.Principal) provenance.Act {
	return provenance.Act{Member: member, Kind: kind, By: by}
}

// The requester is alice's agent. Members whom one admin created count as that admin: as no
// independent approver if alice created them, else as one. A first approval requires only a
// different person, regardless of who created them.
func TestTwoPeople(t *testing.T) {
	t.Parallel()
	alice, bob := policytest.Alice, policytest.Bob
	votes := policytest.Approval(policytest.Vote(bob, op), policytest.Vote(carol, op, sec), policytest.Vote(dave, op, sec))
	for name, c := range map[string]struct {
		history                              provenance.History
		one, two, twoOfSecurity, oneSecurity bool
	}{
		"no member created another": {nil, true, true, true, true},
		"the requester made them all": {
			provenance.History{did(provenance.Made, bob, alice), did(provenance.Made, carol, alice), did(provenance.Made, dave, alice)},
			true, false, false, false,
		},
		"the requester changed the two of security": {
			provenance.History{did(provenance.Changed, carol, alice), did(provenance.Changed, dave, alice)}, true, false, false, false,
		},
		"bob made the two of security": {
			provenance.History{did(provenance.Made, carol, bob), did(provenance.Made, dave, bob)}, true, false, false, true,
		},
		"bob made one of security": {provenance.History{did(provenance.Made, carol, bob)}, true, true, true, true},
		"bob made the two of security, and the host confirmed one": {
			provenance.History{did(provenance.Made, carol, bob), did(provenance.Made, dave, bob), did(provenance.Confirmed, dave)}, true, true, true, true,
		},
		"the owner made the agent": {provenance.History{did(provenance.Made, policytest.Agent, alice)}, true, true, true, true},
		"bob and carol made and changed the agent": {
			provenance.History{did(provenance.Made, policytest.Agent, bob), did(provenance.Changed, policytest.Agent, carol)}, true, false, false, true,
		},
		"bob and carol made and changed the agent, and the host confirmed it": {
			provenance.History{did(provenance.Made, policytest.Agent, bob), did(provenance.Changed, policytest.Agent, carol), did(provenance.Confirmed, policytest.Agent)},
			true, true, true, true,
		},
		"carol made the requester": {provenance.History{did(provenance.Made, alice, carol)}, true, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for text, want := range map[string]bool{
				"": c.one, twoApprovers: c.two, twoFromSecurity: c.twoOfSecurity,
				strings.Replace(twoFromSecurity, ">= 2", ">= 1", 1): c.oneSecurity, strings.Replace(twoApprovers, ">= 2", ">= 1", 1): c.one,
			} {
				o := policytest.ManyMembers(text)
				o.Provenance = c.history
				set := policytest.Set(t, o)
				if got := set.Judge(run, votes); got.Allowed != want || len(got.Errors) > 0 {
					t.Errorf("under %q: %+v, want %v", text, got, want)
				}
				want := policy.Ask
				if got := set.Judge(run, votes); !got.Allowed {
					want = policy.Deny
				}
				if v := set.Evaluate(run, nil); v.Effect() != want {
					t.Errorf("under %q: asking %v, want %v (%s)", text, v.Effect(), want, v.Missing())
				}
			}
		})
	}
}

// A call with too few independent approvers is denied without a question. The denial contains
// the reason and the remedy.
func TestDependentApproversAreReported(t *testing.T) {
	t.Parallel()
	o := policytest.ManyMembers(twoApprovers)
	for _, p := range []access.Principal{policytest.Bob, carol, dave} {
		o.Provenance = append(o.Provenance, did(provenance.Made, p, policytest.Alice))
	}
	v := policytest.Set(t, o).Evaluate(run, nil)
	if v.Reason() != reason.ApprovalUnattainable {
		t.Errorf("%s", v.Reason())
	}
	if want := "3 people may decide this but count as 1 person, because the creator or editor of a member could vote as that member"; !strings.Contains(v.Missing(), want) {
		t.Errorf("%q does not say %q", v.Missing(), want)
	}
	if !strings.Contains(v.Remedy(), "members confirm") || !strings.Contains(v.Remedy(), "on the gateway's host") {
		t.Errorf("%q says no way", v.Remedy())
	}
}
