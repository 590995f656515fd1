package clitest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

type fakeNotices struct{ f *Gateway }

func (s fakeNotices) ListNotifyTargets(context.Context, *palyrav1.ListNotifyTargetsRequest) (*palyrav1.ListNotifyTargetsResponse, error) {
	return &palyrav1.ListNotifyTargetsResponse{Targets: []*palyrav1.NotifyTarget{
		{Name: "ops", Type: "webhook", Where: "hooks.example.org:443", Events: []string{"approval_asked", "frozen"}, MinSeverity: "low", Include: "none", Queued: 2, Problem: "the endpoint answers 503"},
		{Name: "team", Type: "slack", Where: "channel C012AB3CD", MinSeverity: "medium", Include: "full", Connection: "connected"},
	}}, nil
}

func delivery(id, target, kind, state string) *palyrav1.Delivery {
	return &palyrav1.Delivery{
		DeliveryId: id, Target: target, Notice: kind, Severity: "medium", Event: 12, ApprovalId: "01APPR0VA10000000000000000", State: state, Attempts: 1, QueuedAt: timestamppb.New(Now),
	}
}

func (s fakeNotices) TestNotify(_ context.Context, req *palyrav1.TestNotifyRequest) (*palyrav1.TestNotifyResponse, error) {
	d := delivery("01DE11VERY0000000000000003", req.GetTarget(), "test", "delivered")
	d.Event, d.ApprovalId, d.EndedAt = 0, "", timestamppb.New(Now)
	switch req.GetTarget() {
	case "ops":
	case "team":
		d.State, d.Problem = "failed", "chat.postMessage: Slack says \"channel_not_found\""
	default:
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "there is no notification target", nil)
	}
	return &palyrav1.TestNotifyResponse{Delivery: d}, nil
}

func (s fakeNotices) ListDeliveries(context.Context, *palyrav1.ListDeliveriesRequest) (*palyrav1.ListDeliveriesResponse, error) {
	waiting, sent := delivery("01DE11VERY0000000000000002", "ops", "approval_asked", "queued"), delivery("01DE11VERY0000000000000001", "team", "frozen", "delivered")
	waiting.NextAt, waiting.Problem = timestamppb.New(Now.Add(time.Minute)), "the endpoint answers 503"
	sent.EndedAt, sent.ApprovalId = timestamppb.New(Now), ""
	return &palyrav1.ListDeliveriesResponse{Deliveries: []*palyrav1.Delivery{waiting, sent}}, nil
}

func chatUser() *palyrav1.ChatUser {
	return &palyrav1.ChatUser{MappingId: "01MAPP1NG00000000000000000", Team: "T012AB3CD", User: "U012AB3CD", Member: "user:ada", MappedBy: "user:ada", MappedAt: timestamppb.New(Now)}
}

func (s fakeNotices) ListChatUsers(context.Context, *palyrav1.ListChatUsersRequest) (*palyrav1.ListChatUsersResponse, error) {
	return &palyrav1.ListChatUsersResponse{Users: []*palyrav1.ChatUser{chatUser()}}, nil
}

func (s fakeNotices) MapChatUser(_ context.Context, req *palyrav1.MapChatUserRequest) (*palyrav1.MapChatUserResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.MappedUsers = append(s.f.MappedUsers, req)
	return &palyrav1.MapChatUserResponse{User: chatUser()}, nil
}

func (s fakeNotices) ConsentToChatUser(_ context.Context, req *palyrav1.ConsentToChatUserRequest) (*palyrav1.ConsentToChatUserResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.ChatConsents = append(s.f.ChatConsents, req)
	u := chatUser()
	if !req.GetWithdraw() {
		u.ConsentedAt = timestamppb.New(Now)
	}
	return &palyrav1.ConsentToChatUserResponse{User: u}, nil
}

func (s fakeNotices) UnmapChatUser(context.Context, *palyrav1.UnmapChatUserRequest) (*palyrav1.UnmapChatUserResponse, error) {
	return &palyrav1.UnmapChatUserResponse{User: chatUser()}, nil
}
