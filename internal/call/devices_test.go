package call_test

import (
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/gateway/gatewaytest"
)

// A vote from a revoked device no longer counts: not towards the second vote, not when the
// answer is used, and not in a grant.
func TestVotesOfRevokedDevices(t *testing.T) {
	t.Parallel()
	carol := gatewaytest.Person(member("carol").Principal, member("carol").Roles...)
	t.Run("the control: both votes count", func(t *testing.T) {
		w := newWorld(t, threeUsers)
		w.reload(needsTwo)
		r := w.begin(runCall())
		rec := r.asked()
		w.vote(bob, rec, yes)
		if after := w.vote(carol, rec, yes); after.State != approval.Allowed && after.State != approval.Consumed {
			t.Fatalf("after two votes the approval is %s", after.State)
		}
		if o, err := r.wait(); err != nil || !o.Decision.Allowed {
			t.Errorf("got %+v, %v", o.Decision, err)
		}
	})
	t.Run("between two votes", func(t *testing.T) {
		w := newWorld(t, threeUsers)
		w.reload(needsTwo)
		r := w.begin(runCall())
		rec := r.asked()
		w.vote(bob, rec, yes)
		w.revoked.Store(bob.DeviceID, true)
		if after := w.vote(carol, rec, yes); after.State != approval.Pending {
			t.Errorf("with one valid vote of two the approval is %s", after.State)
		}
		r.leave()
		r.wait()
		w.run.Ran(t, 0)
	})
	t.Run("after the answer", func(t *testing.T) {
		w := newWorld(t, threeUsers)
		r := w.beginWith(runCall(), answered(func() { w.revoked.Store(bob.DeviceID, true) }))
		w.vote(bob, r.asked(), yes)
		if o, err := r.wait(); err != nil || o.Decision.Allowed {
			t.Errorf("got %+v, %v", o.Decision, err)
		}
		w.run.Ran(t, 0)
	})
	t.Run("in a grant", func(t *testing.T) {
		w := newWorld(t)
		g := w.grant(runCall(), approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchTool})
		w.wantGranted("before", otherInput(runCall()), g)
		w.revoked.Store(alice.DeviceID, true)
		w.wantAsked("after", runCall())
	})
}

// A vote counts only while its voter may act. A vote of a member who was disabled, removed or
// demoted does not count towards a second vote or in a grant. The vote stays in the record and
// counts again once the voter may act.
func TestVotesOfMembersWhoMayNotAct(t *testing.T) {
	t.Parallel()
	standing := approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchExact}
	carol := gatewaytest.Person(member("carol").Principal, member("carol").Roles...)
	for name, end := range map[string]func(*access.Member){
		"disabled": func(m *access.Member) { m.Disabled = true },
		"removed":  func(m *access.Member) { m.Disabled, m.RemovedAt = true, policytest.Now },
		"demoted":  func(m *access.Member) { m.Roles = []access.Role{access.RoleDeveloper} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, threeUsers)
			as := func(edit func(*access.Member)) {
				cfg := policytest.Config(w.options)
				for i := range cfg.Members {
					if cfg.Members[i].Principal == bob.Principal {
						edit(&cfg.Members[i])
					}
				}
				w.engine.Swap(must.Get(policy.Load(cfg))(t))
			}
			r := w.begin(runCall())
			w.vote(bob, r.asked(), standing)
			r.wait()
			list, _, err := w.Desk.Grants.List(t.Context(), approval.GrantFilter{Open: true})
			if err != nil || len(list) != 1 {
				t.Fatalf("%d grants, %v", len(list), err)
			}
			w.wantGranted("the control", runCall(), list[0])
			as(end)
			w.wantAsked("in a grant", runCall())
			g := must.Get(w.Desk.Grants.Get(t.Context(), list[0].ID))(t)
			if len(g.MintedBy) != 1 || g.MintedBy[0].User != bob.Principal {
				t.Errorf("the vote is not in the record: %+v", g.MintedBy)
			}
			as(func(*access.Member) {})
			w.wantGranted("back again", runCall(), list[0])
		})
		t.Run(name+" between two votes", func(t *testing.T) {
			w := newWorld(t, threeUsers)
			w.reload(needsTwo)
			r := w.begin(otherInput(runCall()))
			rec := r.asked()
			w.vote(bob, rec, yes)
			o := w.options
			o.Policies = needsTwo
			cfg := policytest.Config(o)
			for i := range cfg.Members {
				if cfg.Members[i].Principal == bob.Principal {
					end(&cfg.Members[i])
				}
			}
			w.engine.Swap(must.Get(policy.Load(cfg))(t))
			if after := w.vote(carol, rec, yes); after.State != approval.Pending {
				t.Errorf("with one valid vote of two the approval is %s", after.State)
			}
			r.leave()
			r.wait()
			w.run.Ran(t, 0)
		})
	}
}

// The number of running calls of one principal is limited, whatever the calls wait for. Calls
// of other principals are not affected.
func TestRunningCallsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.limits.CreatedPerMinute, w.budget = 1000, 1000 })
	var waiting []*running
	for range 256 {
		r := w.begin(runCall())
		r.asked()
		waiting = append(waiting, r)
	}
	_, _, err := w.call(runCall())
	reasontest.Want(t, "one more", err, reason.RateLimited)
	other := readCall()
	other.Caller = alice
	if _, o, err := w.call(other); err != nil || !o.Decision.Allowed {
		t.Errorf("another principal's call: %+v, %v", o.Decision, err)
	}
	for _, r := range waiting {
		r.leave()
		r.wait()
	}
	if _, o, err := w.call(readCall()); err != nil || !o.Decision.Allowed {
		t.Errorf("after they ended: %+v, %v", o.Decision, err)
	}
}
