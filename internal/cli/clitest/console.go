package clitest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
)

// ConsoleSessionID is the id of the one console session, and ConsoleLink the link of every login.
const (
	ConsoleSessionID = "01C0NS0LE00000000000000000"
	ConsoleLink      = "http://palyra-test.localhost:7145/login#token=T0KEN"
	consoleLoginID   = "01L0G1N0000000000000000000"
)

type fakeConsole struct {
	palyrav1connect.UnimplementedConsoleServiceHandler
	f *Gateway
}

func (s fakeConsole) session() *palyrav1.ConsoleSession {
	return &palyrav1.ConsoleSession{
		SessionId: ConsoleSessionID, Principal: "user:ada", DeviceId: "01DEVICE000000000000000000", LoginId: consoleLoginID,
		CreatedAt: timestamppb.New(Now), LastUsedAt: timestamppb.New(Now), EndsAt: timestamppb.New(Now.Add(12 * time.Hour)), IdleAt: timestamppb.New(Now.Add(2 * time.Hour)),
		Address: "127.0.0.1", UserAgent: "Browser/1.0",
	}
}

func (s fakeConsole) CreateConsoleLogin(context.Context, *palyrav1.CreateConsoleLoginRequest) (*palyrav1.CreateConsoleLoginResponse, error) {
	return &palyrav1.CreateConsoleLoginResponse{Url: ConsoleLink, ExpiresAt: timestamppb.New(Now.Add(time.Minute)), LoginId: consoleLoginID}, nil
}

func (s fakeConsole) ListConsoleSessions(context.Context, *palyrav1.ListConsoleSessionsRequest) (*palyrav1.ListConsoleSessionsResponse, error) {
	return &palyrav1.ListConsoleSessionsResponse{Sessions: []*palyrav1.ConsoleSession{s.session()}}, nil
}

func (s fakeConsole) RevokeConsoleSession(_ context.Context, req *palyrav1.RevokeConsoleSessionRequest) (*palyrav1.RevokeConsoleSessionResponse, error) {
	if req.GetSessionId() != ConsoleSessionID {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "session "+req.GetSessionId()+" not found", nil)
	}
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.RevokedConsoles = append(s.f.RevokedConsoles, req.GetSessionId())
	return &palyrav1.RevokeConsoleSessionResponse{Session: s.session()}, nil
}

func (s fakeConsole) Whoami(context.Context, *palyrav1.WhoamiRequest) (*palyrav1.WhoamiResponse, error) {
	return &palyrav1.WhoamiResponse{Principal: "user:ada", OnBehalfOf: "user:ada", Surface: "grpc", Now: timestamppb.New(Now)}, nil
}
