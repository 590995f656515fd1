package clitest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/presenceproof"
)

type fakeDevices struct{ f *Gateway }

func (s fakeDevices) GetDevice(_ context.Context, req *palyrav1.GetDeviceRequest) (*palyrav1.GetDeviceResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	id := req.GetDeviceId()
	if id == "" {
		id = s.f.Caller.GetDeviceId()
	}
	for _, d := range s.f.Devices {
		if d.GetDeviceId() == id {
			return &palyrav1.GetDeviceResponse{
				PresenceKey: presenceproof.KeyMessage(s.f.PresenceKeys[id]),
				Device:      d, AddedBy: "user:ada", LastUsedAt: timestamppb.New(Now.Add(-time.Minute)), Now: timestamppb.New(Now),
				Keys: []*palyrav1.DeviceKey{
					{Sha256: "sha256:aa", NotAfter: d.GetCertificateExpiresAt(), UsedAt: timestamppb.New(Now.Add(-time.Hour)), EndsAt: timestamppb.New(Now.Add(4 * time.Minute))},
					{Sha256: "sha256:bb", NotAfter: d.GetCertificateExpiresAt(), UsedAt: timestamppb.New(Now.Add(-time.Minute))},
				},
			}, nil
		}
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "device "+id+" not found", nil)
}

func (s fakeDevices) ListDeviceActs(context.Context, *palyrav1.ListDeviceActsRequest) (*palyrav1.ListDeviceActsResponse, error) {
	return &palyrav1.ListDeviceActsResponse{Acts: []*palyrav1.DeviceAct{
		{Seq: 41, At: timestamppb.New(Now.Add(-time.Minute)), Code: "PAL-R100", Subject: ApprovalID, Summary: "started a run of fast", Undo: "palyra runs cancel " + ApprovalID},
		{Seq: 12, At: timestamppb.New(Now.Add(-time.Hour)), Code: "PAL-A102", Subject: ApprovalID, Summary: "denied an approval"},
	}}, nil
}
