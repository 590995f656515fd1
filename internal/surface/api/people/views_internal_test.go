package people

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// All streams of a caller share one view of an event. Other callers, events and policy sets
// have their own views.
func TestViewsAreComputedOnce(t *testing.T) {
	t.Parallel()
	var v Views
	var worked atomic.Int32
	work := func() (*palyrav1.Approval, error) {
		worked.Add(1)
		return &palyrav1.Approval{ApprovalId: "one"}, nil
	}
	set, other := &policy.Set{}, &policy.Set{}
	ann, bob := access.Caller{Principal: access.User("ann"), DeviceID: "D1"}, access.Caller{Principal: access.User("bob"), DeviceID: "D1"}
	ask := func(set *policy.Set, c access.Caller, seq int64) {
		if a, err := v.Of(set, c, seq, work); err != nil || a.GetApprovalId() != "one" {
			t.Errorf("%v, %v", a, err)
		}
	}
	var streams sync.WaitGroup
	for range 1000 {
		streams.Go(func() { ask(set, ann, 1) })
	}
	streams.Wait()
	if n := worked.Load(); n != 1 {
		t.Errorf("worked out %d times for one caller", n)
	}
	token := ann
	token.DeviceID = "T1"
	ask(set, bob, 1)
	ask(set, token, 1)
	ask(set, ann, 2)
	ask(other, ann, 1)
	if n := worked.Load(); n != 5 {
		t.Errorf("worked out %d times, want 5", n)
	}
	for seq := range int64(10 * mostViews) {
		ask(set, ann, 10+seq)
	}
	if len(v.known) > mostViews || len(v.order) > mostViews {
		t.Errorf("%d views are remembered", len(v.known))
	}
	// A failed computation is repeated.
	failing := func() (*palyrav1.Approval, error) { worked.Add(1); return nil, errors.New("the disk") }
	worked.Store(0)
	for range 3 {
		if _, err := v.Of(set, ann, 1<<40, failing); err == nil {
			t.Error("it did not fail")
		}
	}
	if n := worked.Load(); n != 3 {
		t.Errorf("worked out %d times, want 3", n)
	}
}
