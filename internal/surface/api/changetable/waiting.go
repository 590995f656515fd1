package changetable

import (
	"context"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/approval"
)

// Waiting returns the pending approval of a change of the gateway or of a workspace that the
// caller's device requested. It polls at the given interval, first after one interval. It
// returns nil when ctx ends before an approval is found.
func Waiting(ctx context.Context, every time.Duration, status palyrav1connect.StatusServiceClient, approvals palyrav1connect.ApprovalsServiceClient) *palyrav1.Approval {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if v := question(ctx, status, approvals); v != nil {
			return v
		}
	}
}

// question returns the newest pending approval that this device requested, or nil if none is found
// or the query fails.
func question(ctx context.Context, status palyrav1connect.StatusServiceClient, approvals palyrav1connect.ApprovalsServiceClient) *palyrav1.Approval {
	st, err := status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return nil
	}
	reply, err := approvals.ListApprovals(ctx, &palyrav1.ListApprovalsRequest{
		States: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING},
		SubjectTypes: []palyrav1.ApprovalSubjectType{
			palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE, palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_TOOL,
		},
		Principals: []string{st.GetCaller().GetPrincipal()},
	})
	if err != nil {
		return nil
	}
	for _, v := range reply.GetApprovals() {
		change := v.GetSubjectType() == palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE || strings.HasPrefix(v.GetSubjectId(), approval.CommitSubject)
		if v.GetDevice() == st.GetCaller().GetDeviceId() && change {
			return v
		}
	}
	return nil
}
