package call_test

import (
	"context"
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

// An approved call is evaluated again after its hold. A call that ends during the hold does not
// consume its approval.
func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoUsers)
	held := runCall()
	held.Hold = func(context.Context) error {
		w.run.Ran(t, 0)
		if slices.Contains(w.codes(0), event.Decided) {
			t.Error("it was decided before it was held")
		}
		return reason.Errorf(reason.ApprovalExpired, "nobody is there")
	}
	r := w.begin(held)
	rec := r.asked()
	w.vote(bob, rec, yes)
	_, err := r.wait()
	reasontest.Want(t, "a call that is held for ever", err, reason.ApprovalExpired)
	if now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t); now.State != approval.Allowed {
		t.Errorf("its approval is %s", now.State)
	}
	w.run.Ran(t, 0)

	held.Hold = func(context.Context) error { w.reload(never); return nil }
	_, o, err := w.call(held) // uses the approval that the first call did not consume
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.PolicyDenied {
		t.Errorf("a call that was forbidden meanwhile: %+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 0)

	w.reload("")
	held.Hold = func(context.Context) error { return nil }
	if _, o, err = w.call(held); err != nil || !o.Decision.Allowed || o.Decision.ApprovalID != rec.ID {
		t.Errorf("a call that goes on: %+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 1)
}

// Changes are held like calls. A denied call is not held.
func TestHoldOfChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(nil, &told)
	held, times := runCall(), 0
	held.Hold = func(context.Context) error {
		if times++; times == 1 {
			return nil
		}
		return reason.Errorf(reason.ApprovalExpired, "nobody is there")
	}
	if _, _, err := w.call(held); err != nil {
		t.Fatal(err)
	}
	told.refused(t, "changes that nobody waits for", reason.ApprovalExpired)
	w.reload(never)
	times = 0
	if _, o, err := w.call(held); err != nil || o.Decision.Allowed || times != 0 {
		t.Errorf("a denied call was held %d times: %+v, %v", times, o.Decision, err)
	}
}
