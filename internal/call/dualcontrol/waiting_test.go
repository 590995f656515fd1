package dualcontrol_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

// bubble runs a test with a gate whose Run has started. stop ends Run and waits for it.
func bubble(t *testing.T, test func(t *testing.T, w *changing, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newChanging(t, "")
		test(t, w, must.Run(t, w.gate.Run))
	})
}

// pending requests the change without waiting, and returns the id of the question.
func (c *changing) pending(by string) string {
	c.t.Helper()
	ctx, gone := context.WithCancel(c.t.Context())
	_, err := c.request(ctx, by, false)
	gone()
	reasontest.Want(c.t, "the error", err, reason.ChangePending)
	synctest.Wait()
	e := reason.Known(err, "")
	if e.Fields["approval_id"] == "" || e.Fields["expires_at"] == "" {
		c.t.Fatalf("the pending change has no id: %v", e.Fields)
	}
	return e.Fields["approval_id"]
}

func (c *changing) record(id string) approval.Record {
	c.t.Helper()
	synctest.Wait()
	return must.Get(c.desk.Records.Get(c.t.Context(), id))(c.t)
}

func (c *changing) decide(voter, id string) {
	c.t.Helper()
	must.Get(c.desk.Votes.Decide(c.t.Context(), approvaltest.Caller(voter), id, yes))(c.t)
}

// A change is applied once, with the same record, after its requester has disconnected.
func TestChangeSurvivesItsCaller(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *changing, _ func()) {
		id := w.pending("ann")
		if again := w.pending("ann"); again != id {
			t.Errorf("the same change asked again is %s, want %s", again, id)
		}
		if r := w.record(id); r.State != approval.Pending || w.made != 0 {
			t.Errorf("%s, made %d", r.State, w.made)
		}
		waited := make(chan word, 1)
		go func() {
			o, err := w.change("ann")
			waited <- word{o, err}
		}()
		synctest.Wait()
		w.decide("bob", id)
		r := w.record(id)
		if r.State != approval.Consumed || r.RequestedBy != access.User("ann") || r.Votes[0].User != access.User("bob") || w.made != 1 {
			t.Errorf("%s by %s, made %d", r.State, r.RequestedBy, w.made)
		}
		if o := <-waited; o.err != nil || o.ApprovalID != id || o.Result != 1 {
			t.Errorf("the waiting caller got %+v", o)
		}
		if _, err := w.desk.Votes.Decide(t.Context(), approvaltest.Caller("bob"), id, yes); reason.Of(err) != reason.ApprovalConflict || w.made != 1 {
			t.Errorf("a second approval: %v, made %d", err, w.made)
		}
	})
}

// The change still waits after a waiting caller was disconnected.
func TestDisconnectDoesNotCancel(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *changing, _ func()) {
		id := w.pending("ann")
		ctx, disconnect := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := w.request(ctx, "ann", true)
			done <- err
		}()
		synctest.Wait()
		disconnect()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("cut off: %v", err)
		}
		if r := w.record(id); r.State != approval.Pending {
			t.Errorf("%s after the disconnect", r.State)
		}
		must.Get(w.desk.Records.Cancel(t.Context(), approvaltest.Caller("ann"), id, ""))(t)
		if r := w.record(id); r.State != approval.Cancelled || w.made != 0 {
			t.Errorf("cancelled by the requester: %s, made %d", r.State, w.made)
		}
	})
}

// A waiting change ends as soon as its requester may no longer make it, and its note has the
// reason. An approval does not revive it. Other changes of members do not end it.
func TestWaitingChangeEndsWithItsRequester(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(*changing)
		ends bool
	}{
		"control: nothing":               {func(*changing) {}, false},
		"control: another is disabled":   {func(c *changing) { c.put("cyd", true, access.RoleAdmin) }, false},
		"control: another device is cut": {func(c *changing) { c.dead["device-cyd"] = true }, false},
		"disabled":                       {func(c *changing) { c.put("ann", true, access.RoleOwner) }, true},
		"device revoked":                 {func(c *changing) { c.dead["device-ann"] = true }, true},
		"loses the role": {func(c *changing) {
			c.put("ann", false, access.RoleAuditor)
			c.engine.Swap(policytest.Set(c.t, policytest.Options{Members: c.registry.List()}))
		}, true},
		"policy takes the permission": {func(c *changing) {
			c.engine.Swap(policytest.Set(c.t, policytest.Options{Policies: forbidsEverything, Members: c.team}))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *changing, _ func()) {
				id := w.pending("ann")
				c.lose(w)
				w.gate.Recheck()
				r := w.record(id)
				if c.ends && (r.State != approval.Cancelled || !strings.Contains(r.Note, "user:ann is no longer permitted to make this change")) {
					t.Errorf("%s: %q", r.State, r.Note)
				}
				if _, err := w.desk.Votes.Decide(t.Context(), approvaltest.Caller("bob"), id, yes); (err != nil) != c.ends {
					t.Errorf("an approval: %v", err)
				}
				if synctest.Wait(); (w.made == 0) != c.ends {
					t.Errorf("made %d", w.made)
				}
			})
		})
	}
}

// The permissions of the requester are checked when the change is made, even without Recheck.
// The unused approval ends, and a notice is displayed.
func TestApprovedAndNotApplied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(*changing)
		state   approval.State
		note    string
	}{
		"the requester was disabled": {func(c *changing) { c.put("ann", true, access.RoleOwner) }, approval.Expired, "user:ann is disabled"},
		"the change is another":      {func(c *changing) { c.roles = "owner" }, approval.Expired, "not the one that was approved"},
		"it changes nothing": {func(c *changing) { c.plan.Nothing = true }, approval.Expired,
			"not the one that was approved"},
		"making it fails": {func(c *changing) { c.fails = reason.Errorf(reason.Internal, "no space") }, approval.Consumed, "no space"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *changing, _ func()) {
				id := w.pending("ann")
				c.between(w)
				w.decide("bob", id)
				r := w.record(id)
				if r.State != c.state || c.state == approval.Expired && !strings.Contains(r.Note, "not applied: ") || (w.made == 0) != (c.state == approval.Expired) {
					t.Errorf("%s, %q, made %d", r.State, r.Note, w.made)
				}
				notices := strings.Join(w.gate.Notices(), "\n")
				if !strings.Contains(notices, id) || !strings.Contains(notices, c.note) {
					t.Errorf("the status has %q", notices)
				}
			})
		})
	}
}

// A freeze stops calls but not changes of the gateway, which resolve the reason of the freeze: they
// are approved and applied during it.
func TestChangeWaitsOverAFreeze(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *changing, _ func()) {
		id := w.pending("ann")
		must.Do(t, w.desk.Freezer.Freeze(t.Context(), approvaltest.Caller("cyd"), "look"))
		if _, err := w.desk.Requests.Resolve(t.Context(), new(approvaltest.Ask(t)), nil); reason.Of(err) != reason.GatewayFrozen {
			t.Errorf("control: a call is asked about while frozen: %v", err)
		}
		if r := w.record(id); r.State != approval.Pending {
			t.Errorf("%s", r.State)
		}
		w.decide("bob", id)
		if r := w.record(id); r.State != approval.Consumed || w.made != 1 {
			t.Errorf("%s, made %d", r.State, w.made)
		}
	})
}

// A stop ends the wait without an answer and without a change, and no wait starts after it. The
// next start ends the record visibly.
func TestStopEndsWaitingChanges(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *changing, stop func()) {
		id := w.pending("ann")
		done := make(chan error, 1)
		go func() {
			_, err := w.change("ann")
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop waited %v for an answer", took)
		}
		reasontest.Want(t, "the error", <-done, reason.ShuttingDown)
		_, err := w.request(t.Context(), "ann", false)
		reasontest.Want(t, "the error", err, reason.ShuttingDown)
		again := approvaltest.Open(t, w.store, dualcontrol.Judge{Calls: &approvaltest.Judge{Need: 1}, People: w.people()}, approval.Limits{})
		must.Do(t, again.Records.MarkRunsGone(t.Context()))
		r := must.Get(again.Records.Get(t.Context(), id))(t)
		if r.State != approval.Cancelled || !strings.Contains(r.Note, "palyrad stopped while it waited") {
			t.Errorf("%s: %q", r.State, r.Note)
		}
		if _, err := again.Votes.Decide(t.Context(), approvaltest.Caller("bob"), id, yes); reason.Of(err) != reason.ApprovalConflict || w.made != 0 {
			t.Errorf("an approval after the start: %v, made %d", err, w.made)
		}
	})
}
