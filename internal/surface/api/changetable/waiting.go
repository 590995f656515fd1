package changetable

import (
	"context"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/approval"
)

// Waiting returns the question that a change of the caller's device waits for, be it about
// the gateway or about changes that are to be committed, once
// there is one, and nil when ctx ends before. It looks every so often, the first time
// after that.
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

// question is the newest that this device asked and that waits; nil when there is
// none, or it cannot be known.
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
