package call_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// Policies that change while a call is in progress.
const (
	needsOne = ``
	needsTwo = `@id("two-people")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.approvers >= 2 };`
	stillOne = `@id("one-person")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.approvers >= 1 };`
	never = `@id("never")
forbid(principal, action == Action::"tool.execute/process.run", resource);`
	waived = `@id("unattended") @waives("approval: the test says so")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`
	noStanding = `@id("no-standing")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.granted && !context.approval.standing };`
)

func twoUsers(w *world) { w.options.TwoUsers = true }

func threeUsers(w *world) {
	twoUsers(w)
	w.options.Members = append(w.options.Members, member("carol"))
}

// answered returns a hook that calls act after the approvers have answered and before the
// decision.
func answered(act func()) func(call.Event) {
	return func(e call.Event) {
		if e.Resolved != nil {
			act()
		}
	}
}

func TestPolicyThatChangesWhilePeopleAreAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies string
		reason   reason.Code // "" means that the call runs
		state    approval.State
		used     bool
	}{
		"same votes still enough":      {stillOne, "", approval.Consumed, true},
		"more votes needed":            {needsTwo, reason.ApprovalRequired, approval.Allowed, true},
		"forbidden":                    {never, reason.PolicyDenied, approval.Allowed, true},
		"allowed without approval":     {waived, "", approval.Allowed, false},
		"standing approvals ruled out": {noStanding, "", approval.Consumed, true},
		"nothing changed":              {needsOne, "", approval.Consumed, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, threeUsers)
			before := w.engine.Current().SnapshotDigest()
			r := w.beginWith(runCall(), answered(func() { w.reload(c.policies) }))
			rec := r.asked()
			w.vote(bob, rec, yes)
			o, err := r.wait()
			if err != nil || o.Decision.Reason != c.reason || o.Decision.Allowed != (c.reason == "") {
				t.Fatalf("got %+v, %v", o.Decision, err)
			}
			if after, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || after.State != c.state {
				t.Errorf("the approval is %s, %v, want %s", after.State, err, c.state)
			}
			if (o.Decision.ApprovalID == rec.ID) != c.used && c.reason == "" {
				t.Errorf("the decision cites approval %q", o.Decision.ApprovalID)
			}
			if o.Decision.SnapshotDigest != w.engine.Current().SnapshotDigest() {
				t.Error("the decision rests on another snapshot than the one in force")
			}
			evaluations := 1
			if before != w.engine.Current().SnapshotDigest() {
				evaluations = 2
			}
			w.wantEvaluations(evaluations)
			w.run.Ran(t, map[bool]int32{true: 1}[c.reason == ""])
		})
	}
}

func (w *world) wantEvaluations(want int) {
	w.t.Helper()
	n := 0
	for _, code := range w.codes(0) {
		if code == event.Evaluated {
			n++
		}
	}
	if n != want {
		w.t.Errorf("%d evaluations are journaled, want %d", n, want)
	}
}

// A policy that is reloaded before the vote evaluates the vote, and the call waits for the
// approvals which that policy requires.
func TestPolicyThatChangesBeforeTheVote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoUsers)
	r := w.begin(runCall())
	rec := r.asked()
	w.reload(needsTwo)
	if after := w.vote(bob, rec, yes); after.State != approval.Pending || after.Missing == "" {
		t.Fatalf("after one vote the approval is %s, missing %q", after.State, after.Missing)
	}
	r.leave()
	if o, _ := r.wait(); o.Decision.Allowed {
		t.Error("one vote was enough")
	}
	w.run.Ran(t, 0)
}

// A policy that is replaced and restored has the same snapshot as at the ask. Votes that the
// other policy accepted meanwhile are evaluated again under it.
func TestPolicyThatChangesThereAndBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"there and back": true, "control: there": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, threeUsers, func(w *world) { w.options.Policies = needsTwo })
			strict := w.engine.Current()
			r := w.beginWith(runCall(), answered(func() {
				if back {
					w.engine.Swap(strict)
				}
			}))
			rec := r.asked()
			w.reload(stillOne)
			w.vote(bob, rec, yes)
			o, err := r.wait()
			if err != nil || o.Decision.Allowed == back {
				t.Errorf("got %+v, %v", o.Decision, err)
			}
			w.run.Ran(t, map[bool]int32{false: 1}[back])
		})
	}
}

// An unused approval under a laxer policy does not allow a repeated call under a stricter one.
func TestUnusedApprovalIsJudgedAgain(t *testing.T) {
	t.Parallel()
	for name, stricter := range map[string]bool{"stricter": true, "control: the same": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, threeUsers)
				first := w.beginWith(runCall(), answered(func() { w.store.fail(errDisk) }))
				rec := first.asked()
				w.vote(bob, rec, yes)
				if _, err := first.wait(); err == nil {
					t.Fatal("the first call was recorded")
				}
				w.store.fail(nil)
				time.Sleep(31 * time.Second) // the answer is kept that long for the first call
				if stricter {
					w.reload(needsTwo)
				}
				_, o, err := w.call(runCall())
				if err != nil || o.Decision.ApprovalID != rec.ID && !stricter {
					t.Fatalf("got %+v, %v", o.Decision, err)
				}
				if o.Decision.Allowed == stricter {
					t.Errorf("allowed %v under a stricter policy: %v", o.Decision.Allowed, stricter)
				}
				w.run.Ran(t, map[bool]int32{false: 1}[stricter])
			})
		})
	}
}

// A policy that changes between decision and dispatch makes the permit invalid, because the
// permit is for another snapshot. The tool does not run, and the refusal is attested.
func TestPolicyThatChangesAfterTheDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.after = map[event.Code]func(){event.Decided: func() { w.reload(never) }}
	_, o, err := w.call(readCall())
	if err != nil || !o.Decision.Allowed || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.BindingMismatch) {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.read.Ran(t, 0)
	w.checkEvidence(o)
	w.ledger.after = nil
	if _, o, err := w.call(readCall()); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("the control: %+v, %v", o, err)
	}
}

// A grant that answers a waiting call still counts as a standing approval if policy excludes
// those meanwhile.
func TestSiblingGrantIsJudgedAsStanding(t *testing.T) {
	t.Parallel()
	for name, ruledOut := range map[string]bool{"ruled out": true, "control: allowed": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, twoUsers)
			// The reload waits until the approved call runs: a policy that changes between its decision
			// and its start would stop it.
			ran := make(chan struct{})
			var once sync.Once
			w.run.Work = func(context.Context, tool.Call) tool.Report {
				once.Do(func() { close(ran) })
				return gatewaytest.Succeeded(`{}`)
			}
			byGrant := func(e call.Event) {
				if e.Resolved != nil && e.Resolved.Kind() == approval.ByGrant && ruledOut {
					<-ran
					w.reload(noStanding)
				}
			}
			calls := []*running{w.beginWith(runCall(), byGrant), w.beginWith(runCall(), byGrant)}
			rec := calls[0].asked()
			if other := calls[1].asked(); other.ID != rec.ID {
				t.Fatal("the identical call asked by itself")
			}
			w.vote(bob, rec, approval.Ballot{Allow: true, Scope: approval.Session})
			allowed := 0
			for _, r := range calls {
				if o, err := r.wait(); err != nil {
					t.Error(err)
				} else if o.Decision.Allowed {
					allowed++
				}
			}
			if want := map[bool]int{true: 1, false: 2}[ruledOut]; allowed != want {
				t.Errorf("%d calls were allowed, want %d", allowed, want)
			}
			w.run.Ran(t, int32(allowed))
		})
	}
}

// The policy recipes consist only of Cedar text.
func TestTwoPeopleMustAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeUsers, func(w *world) { w.options.Policies = needsTwo })
	r := w.begin(runCall())
	rec := r.asked()
	if after := w.vote(bob, rec, yes); after.State != approval.Pending {
		t.Fatalf("after one vote: %s", after.State)
	}
	w.run.Ran(t, 0)
	w.vote(gatewaytest.Person(member("carol").Principal, member("carol").Roles...), rec, yes)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed {
		t.Fatalf("got %+v, %v", o.Decision, err)
	}
	if d := last[decision.Record](w, event.Decided); len(d.Determining) == 0 {
		t.Error("the decision names no policy")
	}
	w.run.Ran(t, 1)
}

// As soon as a second user exists, no user can approve the calls of their own agent.
func TestOwnerMayNotAnswerOnceThereAreTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoUsers)
	r := w.begin(runCall())
	rec := r.asked()
	_, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, yes)
	reasontest.Want(t, "the owner", err, reason.PermissionDenied)
	_, err = w.Desk.Votes.Decide(t.Context(), agent, rec.ID, yes)
	reasontest.Want(t, "the agent itself", err, reason.PermissionDenied)
	w.vote(bob, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Errorf("the control: %+v, %v", o.Decision, err)
	}
}
