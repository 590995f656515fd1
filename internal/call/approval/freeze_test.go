package approval_test

import (
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func TestFreeze(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	byGrant, err := d.Grants.Answer(t.Context(), id, approvaltest.Ask(t))
	must.Do(t, err)
	byApproval := allowed(t, d, yes, otherArguments)
	p, pending := waiting(t, d, otherSession)
	must.Do(t, d.Freezer.Freeze(t.Context(), alice, "incident"))
	if state, frozen := d.Freezer.Frozen(t.Context()); !frozen || state.By != alice.Principal || state.Reason != "incident" {
		t.Errorf("frozen %v %+v", frozen, state)
	}
	if found(t, d, approvaltest.Ask(t)) {
		t.Error("a grant is offered while frozen")
	}
	for name, a := range map[string]approval.Answer{"grant": byGrant, "approval": byApproval} {
		if err := d.Requests.Consume(t.Context(), a); reason.Of(err) != reason.GatewayFrozen {
			t.Errorf("consuming by %s: %v", name, err)
		}
	}
	for _, a := range []approval.Answer{byGrant, byApproval, approval.NotNeeded()} {
		reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), a), reason.GatewayFrozen)
	}
	_, err = d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, otherArguments)), nil)
	reasontest.Want(t, "the error", err, reason.GatewayFrozen)
	_, err = d.Grants.Answer(t.Context(), id, approvaltest.Ask(t))
	reasontest.Want(t, "the error", err, reason.GatewayFrozen)
	decide(t, d, alice, pending.ID, yes) // approvers may continue to answer
	<-p.Done
	if n := count(d.Store, event.Decided); n != 0 {
		t.Errorf("%d decided", n)
	}

	again := approvaltest.NewDeskOn(t, d.Store, approval.Limits{})
	if _, frozen := again.Freezer.Frozen(t.Context()); !frozen {
		t.Error("the freeze did not survive a restart")
	}
	must.Do(t, d.Freezer.Freeze(t.Context(), bob, "me too"))
	agent := alice
	agent.Principal = access.Agent("builder")
	reasontest.Want(t, "the error", d.Freezer.Thaw(t.Context(), agent), reason.PermissionDenied)
	for range 2 {
		must.Do(t, d.Freezer.Thaw(t.Context(), bob))
	}
	if !found(t, d, approvaltest.Ask(t)) || d.Requests.Consume(t.Context(), byGrant) != nil || d.Requests.Consume(t.Context(), byApproval) != nil {
		t.Error("after the thaw nothing goes")
	}
	var got []event.Code
	for _, c := range d.Store.Codes() {
		if c == event.Frozen || c == event.Thawed {
			got = append(got, c)
		}
	}
	if !slices.Equal(got, []event.Code{event.Frozen, event.Thawed}) {
		t.Errorf("journaled %v", got)
	}
}
