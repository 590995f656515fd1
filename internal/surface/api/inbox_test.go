package api_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestInbox: an approver gets the details of an approval before the decision, and the permitted
// actions.
func TestInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(c *client, req *palyrav1.ListApprovalsRequest) *palyrav1.ListApprovalsResponse {
		t.Helper()
		return must.Get(c.approvals().ListApprovals(t.Context(), req))(t)
	}
	_, first := w.asking(w.coder)
	must.Get(w.bob.approvals().CancelApproval(t.Context(), &palyrav1.CancelApprovalRequest{ApprovalId: first}))(t)
	_, id := w.asking(w.coder)

	pending := list(w.bob, &palyrav1.ListApprovalsRequest{WithCounts: true, ExceptStates: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED}})
	if len(pending.GetApprovals()) != 1 || pending.GetApprovals()[0].GetApprovalId() != id || pending.GetCounts().GetTotal() != 1 || pending.GetCounts().GetByState()["pending"] != 1 {
		t.Fatalf("pending: %v", pending)
	}
	if up := list(w.bob, &palyrav1.ListApprovalsRequest{Ascending: true}); len(up.GetApprovals()) != 2 || up.GetApprovals()[0].GetApprovalId() != first {
		t.Errorf("oldest first: %v", up)
	}
	if none := list(w.bob, &palyrav1.ListApprovalsRequest{ExceptPrincipals: []string{"agent:coder"}}); len(none.GetApprovals()) != 0 {
		t.Errorf("without the agent: %v", none)
	}
	v := must.Get(w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(t).GetApproval()
	if n := v.GetNeeds(); n.GetHave() != 0 || n.GetWant() != 1 {
		t.Errorf("needs: %v", n)
	}
	if v.GetPrompt().GetAskedLastWeek() != 1 {
		t.Errorf("asked before: %d", v.GetPrompt().GetAskedLastWeek())
	}
	covered := false
	for _, s := range v.GetPrompt().GetScopes() {
		covered = covered || s.GetScope() == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && s.GetCoveredLastWeek() == 1
	}
	if !covered || v.GetPrompt().GetLead() == "" {
		t.Errorf("prompt: %v", v.GetPrompt())
	}
	if you := v.GetYou(); !you.GetMayDecide() || you.GetOwn() || you.GetReason() != "" {
		t.Errorf("bob: %v", you)
	}
	for name, c := range map[string]struct {
		who *client
		own bool
	}{"an auditor": {w.eve, false}, "who answers for the agent": {w.alice, true}} {
		you := list(c.who, &palyrav1.ListApprovalsRequest{States: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}}).GetApprovals()[0].GetYou()
		if you.GetMayDecide() || you.GetReason() != string(reason.PermissionDenied) || you.GetPermission() != "approval.decide" || you.GetOwn() != c.own || you.GetMessage() == "" {
			t.Errorf("%s: %v", name, you)
		}
	}
}
