package approval_test

import (
	"testing"
	"time"

	"palyra/internal/approval"
	"palyra/internal/approval/approvaltest"
	"palyra/internal/reason"
)

// What may happen between the decision and the start of a call by an approval.
func TestRecheckOfApproval(t *testing.T) {
	d := approvaltest.NewDesk(t)
	unused := allowed(t, d, yes)
	wantReason(t, d.Recheck(t.Context(), unused), reason.ApprovalConflict)
	if err := d.Consume(t.Context(), unused); err != nil {
		t.Fatal(err)
	}
	if err := d.Recheck(t.Context(), unused); err != nil {
		t.Errorf("control: a consumed approval: %v", err)
	}

	revoked := allowed(t, d, yes, otherArguments)
	if _, err := d.RevokeApproval(t.Context(), bob, revoked.ApprovalID(), "stop"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, d.Recheck(t.Context(), revoked), reason.ApprovalRevoked)

	gone := allowed(t, d, yes, otherSession)
	if err := d.MarkRunsGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantReason(t, d.Recheck(t.Context(), gone), reason.ApprovalExpired)
	wantReason(t, d.Recheck(t.Context(), approval.Answer{}), reason.PermitRefused)
}

// Revoking the grant that the votes minted stops the call they were cast for.
func TestRevokedGrantStopsItsFirstCall(t *testing.T) {
	d := approvaltest.NewDesk(t)
	a := allowed(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})
	if err := d.Consume(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := d.Recheck(t.Context(), a); err != nil {
		t.Fatalf("control: before the revoke: %v", err)
	}
	rec, err := d.Get(t.Context(), a.ApprovalID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.RevokeGrant(t.Context(), bob, rec.GrantID, "stop"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, d.Recheck(t.Context(), a), reason.ApprovalRevoked)
}

// A grant whose time is up between the decision and the start starts nothing.
func TestRecheckOfEndedGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Minute})
		a, err := d.GrantAnswer(t.Context(), id, approvaltest.Ask(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Consume(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantReason(t, d.Recheck(t.Context(), a), reason.ApprovalExpired)
	})
}

// Nothing was asked, so nothing can be used up; only a freeze stops the call.
func TestNotNeededIsNotConsumed(t *testing.T) {
	d := approvaltest.NewDesk(t)
	wantReason(t, d.Consume(t.Context(), approval.NotNeeded()), reason.PermitRefused)
	if err := d.Recheck(t.Context(), approval.NotNeeded()); err != nil {
		t.Error(err)
	}
}
