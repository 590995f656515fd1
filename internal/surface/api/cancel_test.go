package api_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
)

// asking makes a call that requires an approval, and returns its stream and the approval's id.
func (w *world) asking(c *client) (*rpc.ServerStream[*palyrav1.CallToolResponse], string) {
	w.t.Helper()
	stream := must.Get(c.gateway().CallTool(w.t.Context(), running()))(w.t)
	w.t.Cleanup(func() { _ = stream.Close() })
	for stream.Receive() {
		if id := stream.Msg().GetApprovalRequested().GetApproval().GetApprovalId(); id != "" {
			return stream, id
		}
	}
	w.t.Fatalf("the call did not ask: %v", stream.Err())
	return nil, ""
}

func (c *client) cancel(id string) (*palyrav1.Approval, error) {
	res, err := c.approvals().CancelApproval(c.w.t.Context(), &palyrav1.CancelApprovalRequest{ApprovalId: id, Reason: "a mistake"})
	return res.GetApproval(), err
}

func TestCancelApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, who := range map[string]*client{"its requester": w.coder, "on whose behalf": w.alice, "who may decide": w.bob} {
		stream, id := w.asking(w.coder)
		// dan may call tools, but did not request this call.
		_, err := w.dan.cancel(id)
		wantError(t, "another developer", err, reason.PermissionDenied)
		if !w.audit.has(refusal{"user:dan", palyrav1connect.ApprovalsServiceCancelApprovalProcedure, reason.PermissionDenied}) {
			t.Error("a denial by the room behind the method is not on record")
		}
		// eve may read the approval, and not call tools.
		_, err = w.eve.cancel(id)
		wantError(t, "an auditor", err, reason.PermissionDenied)
		after, err := who.cancel(id)
		if err != nil || after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED {
			t.Fatalf("%s: %v, %v", name, after, err)
		}
		if sees := len(after.GetPrompt().GetWhy()) > 0; sees != (who != w.coder) {
			t.Errorf("%s is shown why it asks: %v", name, sees)
		}
		var rest []*palyrav1.CallToolResponse
		for stream.Receive() {
			rest = append(rest, stream.Msg())
		}
		if d := decisionOf(rest); d.GetAllowed() || d.GetReason() != string(reason.ApprovalCancelled) {
			t.Errorf("%s: the call was decided %v", name, d)
		}
		_, err = who.cancel(id)
		wantError(t, "once more", err, reason.ApprovalConflict)
	}
	if w.run.Runs.Load() != 0 {
		t.Error("a cancelled call ran")
	}
	_, err := w.alice.cancel("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	wantError(t, "unknown", err, reason.NotFound)
}
