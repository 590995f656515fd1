package call_test

import (
	"context"
	"fmt"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// TestRevokedCallerCannotContinue: a call whose credential is revoked while it waits cannot
// decide, start or commit. This also holds for a call with an idempotency key that continues
// without its client.
func TestRevokedCallerCannotContinue(t *testing.T) {
	t.Parallel()
	revoke := func(w *world, c access.Caller) { w.revoked.Store(c.DeviceID, true) }
	for _, revoked := range []bool{false, true} { // false is the control
		name := map[bool]string{false: "the control", true: "revoked"}[revoked]
		t.Run("before the decision, "+name, func(t *testing.T) {
			w := newWorld(t)
			s := keyed(readCall())
			s.Hold = func(context.Context) error {
				if revoked {
					revoke(w, agent)
				}
				return nil
			}
			_, o, err := w.call(s)
			if o.Decision.Allowed == revoked || revoked != (reason.Of(err) == reason.Unauthenticated) {
				t.Errorf("got %+v, %v", o.Decision, err)
			}
			w.read.Ran(t, map[bool]int32{false: 1, true: 0}[revoked])
		})
		t.Run("before the start, "+name, func(t *testing.T) {
			w := newWorld(t)
			r := w.beginWith(readCall(), func(e call.Event) {
				if e.Decision != nil && revoked {
					revoke(w, agent)
				}
			})
			o, err := r.wait()
			if err != nil || (o.Report.Outcome == tool.Refused && o.Report.Reason == string(reason.Unauthenticated)) != revoked {
				t.Errorf("got %+v, %v", o.Report, err)
			}
			w.read.Ran(t, map[bool]int32{false: 1, true: 0}[revoked])
		})
		t.Run("before the commit, "+name, func(t *testing.T) {
			w := newWorld(t, unattended)
			var told gateOf
			work := wrote(nil, &told)
			w.run.Work = func(ctx context.Context, c tool.Call) tool.Report {
				if revoked {
					revoke(w, agent)
				}
				return work(ctx, c)
			}
			_, _, err := w.call(keyed(runCall()))
			if err != nil || told.err != nil || told.ruling.Allowed == revoked {
				t.Errorf("got %+v, %v", told, err)
			}
			if revoked && told.ruling.Reason != string(reason.Unauthenticated) {
				t.Errorf("refused with %s", told.ruling.Reason)
			}
		})
		t.Run("whose call was edited, "+name, func(t *testing.T) {
			w := newWorld(t, withCarol)
			r := w.begin(runCall())
			after := must.Get(w.edit(bob, r.asked(), `{"argv":["make","-n"]}`))(t)
			if revoked {
				revoke(w, bob)
			}
			w.vote(carol, after, yes)
			o, err := r.wait()
			if o.Decision.Allowed == revoked || revoked != (reason.Of(err) == reason.Unauthenticated) {
				t.Errorf("got %+v, %v", o.Decision, err)
			}
			w.run.Ran(t, map[bool]int32{false: 1, true: 0}[revoked])
		})
	}
}

// A call that never started because its credential was revoked runs if the same principal
// repeats it with another credential.
func TestRevokedCallIsRetriedWithAnotherCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.revoked.Store(agent.DeviceID, true)
	if _, _, err := w.call(keyed(readCall())); reason.Of(err) != reason.Unauthenticated {
		t.Fatalf("with the revoked device: %v", err)
	}
	again := keyed(readCall())
	again.Caller.DeviceID = "01JNA3Q0G0DEV1CE0000000009"
	if _, o, err := w.call(again); err != nil || !o.Decision.Allowed {
		t.Errorf("with another device: %+v, %v", o.Decision, err)
	}
	w.read.Ran(t, 1)
}

// All calls of agents that lose their permissions end, whatever the calls wait for and even
// without a connected client. The journal records each end. Calls of other principals continue.
func TestEndCallers(t *testing.T) {
	t.Parallel()
	const agents, each, asking = 5, 200, 20
	w := newWorld(t, func(w *world) {
		most := agents * each
		w.limits = approval.Limits{PendingPerRun: most, PendingPerPrincipal: most, CreatedPerMinute: most, CreatedPerPrincipal: most}
		w.budget = most
		for i := range agents {
			w.options.Members = append(w.options.Members, access.Member{
				Principal: access.Agent(fmt.Sprintf("a%d", i)), Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}, CreatedAt: policytest.Now,
			})
		}
	})
	began := make(chan struct{}, agents*each+1)
	w.read.Work = blocked(began)
	var asked, ran []*running
	for i := range agents * each {
		s := readCall()
		if i/agents < asking {
			s = runCall() // a call that waits for an approval
		}
		s.Caller.Principal, s.IdempotencyKey = access.Agent(fmt.Sprintf("a%d", i%agents)), fmt.Sprintf("key-%d", i)
		if r := w.begin(s); i/agents < asking {
			asked = append(asked, r)
		} else {
			ran = append(ran, r)
		}
	}
	for _, r := range asked {
		r.asked()
	}
	for range ran {
		<-began
	}
	other := w.begin(keyed(readCall()))
	<-began
	why := reason.Errorf(reason.Unauthenticated, "user:alice was disabled")
	if n := w.EndCallers(func(c access.Caller) bool { return c.Principal != agent.Principal }, why); n != agents*each {
		t.Errorf("%d calls were ended of %d", n, agents*each)
	}
	for _, r := range asked {
		if o, err := r.wait(); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("a call that waited for people: %+v, %v", o.Decision, err)
		}
	}
	for _, r := range ran {
		if o, err := r.wait(); err != nil || o.Report.Outcome != tool.Stopped {
			t.Errorf("a call that ran: %+v, %v", o.Report, err)
		}
	}
	if w.UnderWay() != 1 {
		t.Errorf("%d calls go on, want that of another principal", w.UnderWay())
	}
	counted := map[event.Code]int{}
	for _, code := range w.codes(0) {
		counted[code]++
	}
	if counted[event.Refused] != len(asked) || counted[event.Attested] != len(ran) {
		t.Errorf("ends in the journal: %v", counted)
	}
	w.EndCallers(func(access.Caller) bool { return true }, why)
	other.wait()
}
