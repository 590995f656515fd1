package toolcall_test

import (
	"testing"
	"time"

	"palyra/internal/approval"
	"palyra/internal/gatewaytest"
	"palyra/internal/reason"
	"palyra/internal/reason/reasontest"
)

// A vote of a device that was revoked counts no more: not towards the second
// vote, not when the answer is used, and not in a grant.
func TestVotesOfRevokedDevices(t *testing.T) {
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

// The calls of one principal that are under way are bounded, whatever they
// wait for; those of another are not touched by it.
func TestCallsUnderWayAreBounded(t *testing.T) {
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
