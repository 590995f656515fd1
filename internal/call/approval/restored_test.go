package approval_test

import (
	"errors"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// restored ends the contents of a store, as of the given time from now.
func restored(t *testing.T, store *approvaltest.Store, after time.Duration) (approval.RestoredEnds, error) {
	t.Helper()
	return approval.EndRestored(t.Context(), store, approval.Restored{
		Note: "restored from a backup", At: time.Now().UTC().Add(after),
		Event: func(n approval.RestoredEnds) (event.Draft, error) {
			return event.DraftOf(event.Restored, "service:palyrad", "R", n)
		},
	})
}

// No approval, grant or pending question from before the backup allows a call after the
// restore. All of them end in one unit, or none.
func TestEndRestored(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	grant := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	byGrant := must.Get(d.Grants.Answer(t.Context(), grant, approvaltest.Ask(t)))(t)
	byApproval := allowed(t, d, yes, otherArguments)
	p, pending := waiting(t, d, otherSession)
	must.Do(t, d.Freezer.Freeze(t.Context(), alice, "frozen before"))

	broken := errors.New("the disk is full")
	d.FailNext(broken)
	before := len(d.Store.Events())
	if _, err := restored(t, d.Store, 0); !errors.Is(err, broken) || len(d.Store.Events()) != before {
		t.Fatalf("a unit that failed: %v, %d events more", err, len(d.Store.Events())-before)
	}
	ends := must.Get(restored(t, d.Store, 0))(t)
	if ends != (approval.RestoredEnds{Grants: 1, Cancelled: 1, Revoked: 1}) {
		t.Errorf("ended %+v", ends)
	}
	p.Leave(errors.New("over"))
	<-p.Done

	again := approvaltest.NewDeskOn(t, d.Store, approval.Limits{})
	if state, frozen := again.Freezer.Frozen(t.Context()); !frozen || state.Reason != "restored from a backup" {
		t.Errorf("frozen %v: %+v", frozen, state)
	}
	must.Do(t, again.Freezer.Thaw(t.Context(), alice))
	for id, want := range map[string]approval.State{pending.ID: approval.Cancelled, byApproval.ApprovalID(): approval.Revoked} {
		if rec := must.Get(again.Records.Get(t.Context(), id))(t); rec.State != want || rec.Note != "restored from a backup" {
			t.Errorf("%s is %s (%s), want %s", id, rec.State, rec.Note, want)
		}
	}
	if found(t, again, approvaltest.Ask(t)) {
		t.Error("a grant of before is offered")
	}
	for name, a := range map[string]approval.Answer{"grant": byGrant, "approval": byApproval} {
		if err := again.Requests.Consume(t.Context(), a); err == nil {
			t.Errorf("a call ran by the %s of before", name)
		}
	}
	if n := count(d.Store, event.Restored); n != 1 {
		t.Errorf("%d events of the restore", n)
	}
	if ends := must.Get(restored(t, d.Store, 0))(t); ends != (approval.RestoredEnds{}) {
		t.Errorf("a second time ended %+v", ends)
	}
}

// An approval or grant that expired before the restore stays expired, and does not block the
// restore.
func TestEndRestoredLate(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Minute})
	byApproval := allowed(t, d, yes, otherArguments)
	p, pending := waiting(t, d, otherSession)
	must.Get(restored(t, d.Store, 1000*time.Hour))(t)
	p.Leave(errors.New("over"))
	<-p.Done
	again := approvaltest.NewDeskOn(t, d.Store, approval.Limits{})
	for id, want := range map[string]approval.State{pending.ID: approval.Expired, byApproval.ApprovalID(): approval.Revoked} {
		if rec := must.Get(again.Records.Get(t.Context(), id))(t); rec.State != want {
			t.Errorf("%s is %s, want %s", id, rec.State, want)
		}
	}
	if err := again.Requests.Consume(t.Context(), byApproval); reason.Of(err) == "" {
		t.Error("a call ran by an approval of before")
	}
}
