package approval_test

import (
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

// TestRecheckOfApproval covers the events that can happen between the decision and the start of
// an approved call.
func TestRecheckOfApproval(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	unused := allowed(t, d, yes)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), unused), reason.ApprovalConflict)
	must.Do(t, d.Requests.Consume(t.Context(), unused))
	if err := d.Requests.Recheck(t.Context(), unused); err != nil {
		t.Errorf("control: a consumed approval: %v", err)
	}

	revoked := allowed(t, d, yes, otherArguments)
	must.Get(d.Records.Revoke(t.Context(), bob, revoked.ApprovalID(), "stop"))(t)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), revoked), reason.ApprovalRevoked)

	gone := allowed(t, d, yes, otherSession)
	must.Do(t, d.Records.MarkRunsGone(t.Context()))
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), gone), reason.ApprovalExpired)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), approval.Answer{}), reason.PermitRefused)
}

// Revoking a grant stops the call whose votes created it.
func TestRevokedGrantStopsItsFirstCall(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	a := allowed(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})
	must.Do(t, d.Requests.Consume(t.Context(), a))
	if err := d.Requests.Recheck(t.Context(), a); err != nil {
		t.Fatalf("control: before the revoke: %v", err)
	}
	rec := must.Get(d.Records.Get(t.Context(), a.ApprovalID()))(t)
	must.Get(d.Grants.Revoke(t.Context(), bob, rec.GrantID, "stop"))(t)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), a), reason.ApprovalRevoked)
}

// A call does not start if its grant expired between the decision and the start.
func TestRecheckOfEndedGrant(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Minute})
		a := must.Get(d.Grants.Answer(t.Context(), id, approvaltest.Ask(t)))(t)
		must.Do(t, d.Requests.Consume(t.Context(), a))
		time.Sleep(time.Minute)
		reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), a), reason.ApprovalExpired)
	})
}

// An answer of NotNeeded cannot be consumed; only a freeze stops its call.
func TestNotNeededIsNotConsumed(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	reasontest.Want(t, "the error", d.Requests.Consume(t.Context(), approval.NotNeeded()), reason.PermitRefused)
	must.Check(t, d.Requests.Recheck(t.Context(), approval.NotNeeded()))
}
