package api_test

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestRequesterReason: calls and dry runs pass on the requester's reason. A call that requires
// a reason and has none ends with the question, and no approval is requested.
func TestRequesterReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policies = `@id("why") @ask_reason("Which ticket?") forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`
	w.engine.Swap(w.policySet(w.registry.List()))
	list, err := w.coder.call(running())
	info := infoOf(t, err)
	if info.GetReason() != string(reason.RequestReasonNeeded) || info.GetMetadata()["question"] != "Which ticket?" || len(list) != 1 || list[0].GetProposed() == nil {
		t.Errorf("without a reason: %v, %v, %v", names(list), err, info)
	}
	if got := must.Get(w.alice.approvals().ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{}))(t); len(got.GetApprovals()) != 0 {
		t.Errorf("people were asked: %v", got.GetApprovals())
	}
	for said, want := range map[string]string{"": "Which ticket?", "OPS-1": ""} {
		e := must.Get(w.coder.gateway().EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "process.run", InputJson: running().GetInputJson(), RequesterReason: said}))(t)
		if e.GetRequesterReasonWanted() != want || e.GetVerdict() != "ask" {
			t.Errorf("a dry run with %q: %v", said, e)
		}
	}
	long := running()
	long.RequesterReason = strings.Repeat("é", 1025)
	if _, err := w.coder.call(long); infoOf(t, err).GetReason() != string(reason.InvalidInput) {
		t.Errorf("too long: %v", err)
	}
}

// infoOf returns the ErrorInfo of an error.
func infoOf(t *testing.T, err error) *errdetails.ErrorInfo {
	t.Helper()
	var remote *connect.Error
	if !errors.As(err, &remote) || len(remote.Details()) == 0 {
		t.Fatalf("no error of the gateway: %v", err)
	}
	info, _ := must.Get(remote.Details()[0].Value())(t).(*errdetails.ErrorInfo)
	return info
}
