package api

import (
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// allowedUnused returns an approval that was allowed and is not consumed, and its requester.
func allowedUnused(t *testing.T, d *approvaltest.Desk) (approval.Answer, access.Caller) {
	t.Helper()
	ask := approvaltest.Ask(t)
	pending := approvaltest.Resolve(d.Desk, ask)
	rec := <-pending.Records
	must.Get(d.Votes.Decide(t.Context(), approvaltest.Caller("alice"), rec.ID, approval.Ballot{Allow: true, ShownDigest: rec.CallDigest}))(t)
	out := <-pending.Done
	if !out.Answer.Allowed() {
		t.Fatalf("it was not allowed: %v", out)
	}
	return out.Answer, ask.Proposal.Caller
}

// An approval that was allowed but not used can be revoked, and the call can then not use it. A
// used one cannot be revoked.
func TestCancelTakesBackAnAllowedApproval(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	api := &approvals{prompts: prompts{desk: d.Desk}}
	answer, requester := allowedUnused(t, d)
	after, err := api.takeBack(t.Context(), requester, answer.ApprovalID(), "a mistake")
	if err != nil || after.State != approval.Revoked {
		t.Fatalf("%s, %v", after.State, err)
	}
	if err := d.Requests.Consume(t.Context(), answer); reason.Of(err) != reason.ApprovalRevoked && reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("the call used it: %v", err)
	}
	// Control: an approval that was already consumed.
	answer, requester = allowedUnused(t, d)
	must.Do(t, d.Requests.Consume(t.Context(), answer))
	if _, err := api.takeBack(t.Context(), requester, answer.ApprovalID(), ""); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("one that was used: %v", err)
	}
	// A stranger cannot revoke another caller's approval.
	answer, _ = allowedUnused(t, d)
	stranger := access.Caller{Principal: access.Agent("stranger")}
	if _, err := api.takeBack(t.Context(), stranger, answer.ApprovalID(), ""); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("a stranger: %v", err)
	}
}
