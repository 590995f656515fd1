package clitest

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

// SessionID is the id of the one session.
const SessionID = "01SESS10N00000000000000000"

type fakeSessions struct{ f *Gateway }

func someSession() *palyrav1.Session {
	return &palyrav1.Session{
		SessionId: SessionID, Principal: "agent:claude", OnBehalfOf: "user:ada", DeviceId: "01DEVICE000000000000000000", Client: "api",
		State: palyrav1.SessionState_SESSION_STATE_OPEN, StartedAt: timestamppb.New(Now), LastAt: timestamppb.New(Now),
		Calls: 12, RunCalls: 3, Limit: 1000,
	}
}

func (s fakeSessions) ListSessions(context.Context, *palyrav1.ListSessionsRequest) (*palyrav1.ListSessionsResponse, error) {
	return &palyrav1.ListSessionsResponse{Sessions: append([]*palyrav1.Session{someSession()}, s.f.MoreSessions...)}, nil
}

func (s fakeSessions) find(id string) (*palyrav1.Session, error) {
	if id != SessionID {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "session "+id+" not found", nil)
	}
	return someSession(), nil
}

func (s fakeSessions) GetSession(_ context.Context, req *palyrav1.GetSessionRequest) (*palyrav1.GetSessionResponse, error) {
	one, err := s.find(req.GetSessionId())
	return &palyrav1.GetSessionResponse{Session: one, Facts: &palyrav1.SessionFacts{
		InFlight: 1, ToolsUsed: []string{"fs.read", "http.fetch"}, SecretsRead: []string{"github"}, Tainted: true, BytesOut: 42,
	}}, err
}

func (s fakeSessions) EndSession(_ context.Context, req *palyrav1.SessionServiceEndSessionRequest) (*palyrav1.SessionServiceEndSessionResponse, error) {
	one, err := s.find(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	s.f.Mu.Lock()
	s.f.EndedSessions = append(s.f.EndedSessions, req)
	s.f.Mu.Unlock()
	one.State, one.EndedAt, one.EndedBy, one.EndReason = palyrav1.SessionState_SESSION_STATE_ENDED, timestamppb.New(Now), "user:ada", req.GetReason()
	return &palyrav1.SessionServiceEndSessionResponse{Session: one}, nil
}
