package people

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/surface/console"
)

// About is the gateway as every page of the console shows it.
type About struct {
	// ID is the trust domain, Name the name of the host.
	ID, Name string
	Version  string
	// Fingerprint is that of the CA, "sha256:" and hex.
	Fingerprint string
	// Features are what this build and its settings have.
	Features []string
	// Frozen reports whether dispatch is stopped.
	Frozen func(context.Context) bool
	// Pending is how many approvals wait.
	Pending func() int
	// Settings are the effective ones, with where each comes from.
	Settings *config.Config
	Origins  config.Origins
	// Examine has the doctor look at everything.
	Examine func(context.Context) []Exam
}

// ConsoleService is the ConsoleService. All fields are required.
type ConsoleService struct {
	Console *console.Console
	About   About
	Engine  *policy.Engine
	// Caller is who asks, Session its session, "" for another client.
	Caller  func(context.Context) access.Caller
	Session func(context.Context) string
	// Withheld are the methods that no session may use.
	Withheld []string
	Journal  Journal
	Approval Approval

	views Views
	// examining holds the one examination that runs.
	examining atomic.Bool
}

// CreateConsoleLogin makes a link.
func (s *ConsoleService) CreateConsoleLogin(ctx context.Context, _ *palyrav1.CreateConsoleLoginRequest) (*palyrav1.CreateConsoleLoginResponse, error) {
	link, err := s.Console.Link(ctx, s.Caller(ctx))
	if err != nil {
		return nil, err
	}
	return &palyrav1.CreateConsoleLoginResponse{Url: link.URL, ExpiresAt: timestamppb.New(link.ExpiresAt), LoginId: link.ID}, nil
}

// ListConsoleSessions lists the sessions that the caller may see.
func (s *ConsoleService) ListConsoleSessions(ctx context.Context, _ *palyrav1.ListConsoleSessionsRequest) (*palyrav1.ListConsoleSessionsResponse, error) {
	caller := s.Caller(ctx)
	all := s.may(caller, access.PermAccessRead) == nil
	res := &palyrav1.ListConsoleSessionsResponse{}
	for _, one := range s.Console.Sessions() {
		if all || one.Principal == caller.Principal {
			res.Sessions = append(res.Sessions, s.message(ctx, one))
		}
	}
	return res, nil
}

// RevokeConsoleSession ends a session. Who may not see others does not learn which there
// are.
func (s *ConsoleService) RevokeConsoleSession(ctx context.Context, req *palyrav1.RevokeConsoleSessionRequest) (*palyrav1.RevokeConsoleSessionResponse, error) {
	caller := s.Caller(ctx)
	one, known := s.Console.Get(req.GetSessionId())
	if !known || one.Principal != caller.Principal {
		if err := s.may(caller, access.PermAccessWrite); err != nil {
			return nil, err
		}
	}
	message := s.message(ctx, one)
	// The answer comes although the end of the session may end the request that asks.
	if _, err := s.Console.Revoke(context.WithoutCancel(ctx), req.GetSessionId(), caller.Principal, "revoked by "+caller.Principal.String()); err != nil {
		return nil, err
	}
	return &palyrav1.RevokeConsoleSessionResponse{Session: message}, nil
}

// Whoami says who the caller is here, and what it may do.
func (s *ConsoleService) Whoami(ctx context.Context, _ *palyrav1.WhoamiRequest) (*palyrav1.WhoamiResponse, error) {
	caller := s.Caller(ctx)
	res := &palyrav1.WhoamiResponse{
		Principal: caller.Principal.String(), OnBehalfOf: caller.OnBehalfOf.String(), DeviceId: caller.DeviceID, Surface: string(caller.Surface),
		GatewayId: s.About.ID, GatewayName: s.About.Name, Version: s.About.Version, CaFingerprint: s.About.Fingerprint,
		Features: s.About.Features, WithheldMethods: s.Withheld, Frozen: s.About.Frozen(ctx), Now: timestamppb.Now(),
	}
	for _, r := range caller.Roles {
		res.Roles = append(res.Roles, string(r))
	}
	for _, p := range access.Permissions {
		asked := caller
		// As when the caller votes: whether somebody was there is the vote's to prove.
		asked.Present = p == access.PermApprovalDecide && caller.Paired
		if s.may(asked, p) == nil {
			res.Permissions = append(res.Permissions, string(p))
		}
	}
	if one, ok := s.Console.Get(s.Session(ctx)); ok {
		res.Session = s.message(ctx, one)
	}
	return res, nil
}

func (s *ConsoleService) may(caller access.Caller, p access.Permission) error {
	return s.Engine.Current().Permit(policy.AccessRequest{Caller: caller, Permission: p})
}

func (s *ConsoleService) message(ctx context.Context, one console.Session) *palyrav1.ConsoleSession {
	m := &palyrav1.ConsoleSession{
		SessionId: one.ID, Principal: one.Principal.String(), DeviceId: one.Device, LoginId: one.Login,
		CreatedAt: moment(one.CreatedAt), LastUsedAt: moment(one.UsedAt), EndsAt: moment(one.EndsAt), IdleAt: moment(one.IdleAt),
		Address: one.Address, UserAgent: one.UserAgent, Current: one.ID != "" && one.ID == s.Session(ctx),
	}
	if one.Provider {
		m.LoginId = ""
	}
	return m
}
