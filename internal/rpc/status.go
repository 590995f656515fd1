package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
)

// Gateway is the daemon as a whole.
type Gateway interface {
	// Problems says why the gateway is not ready; none means it is.
	Problems(ctx context.Context) []string
	Status(ctx context.Context) (Status, error)
	// Freeze stops dispatch and returns how many calls it stopped.
	Freeze(ctx context.Context, by access.Caller, why string) (FreezeState, int, error)
	Thaw(ctx context.Context, by access.Caller) (FreezeState, error)
}

// Status is what operators ask of the gateway.
type Status struct {
	Version            string
	StartedAt          time.Time
	GatewayID          string
	PolicyVersion      string
	SnapshotDigest     string
	JournalSize        int64
	LastCheckpointSize int64
	Freeze             FreezeState
	PendingApprovals   int
	LiveGrants         int
	CallsInFlight      int
	ActiveRuns         int
	Workspaces         []*palyrav1.WorkspaceStatus
	Sandbox            *palyrav1.SandboxStatus
	Models             []*palyrav1.ModelStatus
	Notices            []string
}

// FreezeState says whether dispatch is stopped, by whom and why.
type FreezeState struct {
	Frozen bool
	Reason string
	By     string
	At     time.Time
}

type status struct{ gateway Gateway }

// GetStatus says how the gateway is and who the caller is.
func (s *status) GetStatus(ctx context.Context, _ *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	st, err := s.gateway.Status(ctx)
	if err != nil {
		return nil, err
	}
	problems := s.gateway.Problems(ctx)
	caller := callerOf(ctx)
	roles := make([]string, len(caller.Roles))
	for i, r := range caller.Roles {
		roles[i] = string(r)
	}
	return &palyrav1.GetStatusResponse{
		Version: st.Version, Ready: len(problems) == 0, Problems: problems, StartedAt: timestamppb.New(st.StartedAt),
		GatewayId: st.GatewayID, PolicyVersion: st.PolicyVersion, SnapshotDigest: st.SnapshotDigest,
		JournalSize: st.JournalSize, LastCheckpointSize: st.LastCheckpointSize, Freeze: freezeMessage(st.Freeze),
		PendingApprovals: int32(st.PendingApprovals), LiveGrants: int32(st.LiveGrants), CallsInFlight: int32(st.CallsInFlight),
		Workspaces: st.Workspaces, Sandbox: st.Sandbox, Notices: st.Notices,
		ActiveRuns: int32(st.ActiveRuns), Models: st.Models,
		Caller: &palyrav1.Identity{
			Principal: caller.Principal.String(), OnBehalfOf: caller.OnBehalfOf.String(), Roles: roles, DeviceId: caller.DeviceID,
			CertificateExpiresAt: timeMessage(certificateEnd(ctx)),
		},
	}, nil
}

// Freeze stops all dispatch.
func (s *status) Freeze(ctx context.Context, req *palyrav1.FreezeRequest) (*palyrav1.FreezeResponse, error) {
	state, stopped, err := s.gateway.Freeze(ctx, callerOf(ctx), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.FreezeResponse{State: freezeMessage(state), Stopped: int32(stopped)}, nil
}

// Thaw lets dispatch go on.
func (s *status) Thaw(ctx context.Context, _ *palyrav1.ThawRequest) (*palyrav1.ThawResponse, error) {
	state, err := s.gateway.Thaw(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &palyrav1.ThawResponse{State: freezeMessage(state)}, nil
}

func freezeMessage(f FreezeState) *palyrav1.FreezeState {
	m := &palyrav1.FreezeState{Frozen: f.Frozen, Reason: f.Reason, By: f.By}
	if !f.At.IsZero() {
		m.At = timestamppb.New(f.At)
	}
	return m
}
