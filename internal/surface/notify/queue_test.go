package notify_test

import (
	"context"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/notifytest"
)

// down is an unreachable receiver.
type down struct{ error }

func (d down) Send(context.Context, notify.Message) (string, error) { return "", d.error }

func target(kind string) notify.Target {
	return notify.Target{Name: "ops", Type: kind, MinSeverity: "low", Include: notify.IncludeNone, Sender: down{context.DeadlineExceeded}}
}

// TestQueueReservesCapacity: in the queue of an unreachable target, approvals leave room for other
// notices, and those leave room for a freeze.
func TestQueueReservesCapacity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting     int
		ask, freeze notify.State
	}{
		"half full":       {500, notify.Queued, notify.Queued},
		"full of asks":    {800, notify.Dropped, notify.Queued},
		"full of all":     {950, notify.Dropped, notify.Queued},
		"full of freezes": {1000, notify.Dropped, notify.Dropped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := notifytest.New(t)
			w.Fill("ops", c.waiting)
			w.Start(target(notify.Email))
			w.Ask()
			must.Do(t, w.Desk.Freezer.Freeze(t.Context(), access.Caller{Principal: access.User("ann"), Paired: true}, "look"))
			for kind, want := range map[notify.Kind]notify.State{notify.ApprovalAsked: c.ask, notify.Frozen: c.freeze} {
				w.UntilStored(func() bool { return state(t, w, kind) == want })
			}
		})
	}
}

// state returns the state of the newest delivery of a kind, without deliveries of Fill, or "".
func state(t *testing.T, w *notifytest.World, kind notify.Kind) notify.State {
	t.Helper()
	for _, d := range must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Target: "ops", Size: 5}))(t) {
		if d.Kind == kind && d.Seq > 0 {
			return d.State
		}
	}
	return ""
}

// TestEndLeavesTheQueue: an approval request that is decided before its delivery leaves the
// queue of an unreachable receiver. The queue of a webhook keeps both notices, as a record.
func TestEndLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]notify.State{notify.Email: notify.Superseded, notify.Webhook: notify.Queued} {
		w := notifytest.New(t)
		w.Start(target(kind))
		r := w.Ask()
		w.UntilStored(func() bool { return state(t, w, notify.ApprovalAsked) == notify.Queued })
		must.Get(w.Desk.Votes.Decide(t.Context(), access.Caller{Principal: access.User("ann"), Paired: true}, r.ID, approval.Ballot{Reason: "no", ShownDigest: r.CallDigest}))(t)
		w.UntilStored(func() bool { return state(t, w, notify.ApprovalDecided) != "" })
		if got := state(t, w, notify.ApprovalAsked); got != want {
			t.Errorf("%s: the question is %s, want %s", kind, got, want)
		}
	}
}
