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

// About is the information on the gateway that every page of the console shows.
type About struct {
	// ID is the trust domain, and Name the name of the host.
	ID, Name string
	Version  string
	// Fingerprint is the fingerprint of the CA: "sha256:" and hex.
	Fingerprint string
	// Features are the features of this build and its settings.
	Features []string
	// Frozen reports whether dispatch is stopped.
	Frozen func(context.Context) bool
	// Pending returns the number of pending approvals.
	Pending func() int
	// Settings are the effective settings, and Origins their sources.
	Settings *config.Config
	Origins  config.Origins
	// Examine runs all checks of the doctor.
	Examine func(context.Context) []CheckResult
}

// ConsoleService is the ConsoleService. All fields are required.
type ConsoleService struct {
	Console *console.Console
	About   About
	Engine  *policy.Engine
	// Caller returns the caller of a request, and Session its console session, "" for other
	// clients.
	Caller  func(context.Context) access.Caller
	Session func(context.Context) string
	// Withheld are the methods that console sessions cannot use.
	Withheld []string
	Journal  Journal
	Approval Approval

	views Views
	// examining is true while an examination runs; only one runs at a time.
	examining atomic.Bool
}

// CreateConsoleLogin creates a login link.
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
	for _, one := range s.Console.Sessions.List() {
		if all || one.Principal == caller.Principal {
			res.Sessions = append(res.Sessions, s.message(ctx, one))
		}
	}
	return res, nil
}

// RevokeConsoleSession ends a session. A caller who may not list other sessions gets the same error
// for an unknown one.
func (s *ConsoleService) RevokeConsoleSession(ctx context.Context, req *palyrav1.RevokeConsoleSessionRequest) (*palyrav1.RevokeConsoleSessionResponse, error) {
	caller := s.Caller(ctx)
	one, known := s.Console.Sessions.Get(req.GetSessionId())
	if !known || one.Principal != caller.Principal {
		if err := s.may(caller, access.PermAccessWrite); err != nil {
			return nil, err
		}
	}
	message := s.message(ctx, one)
	// The session that ends may be the session of this request, so the revocation must not be
	// cancelled with it.
	if _, err := s.Console.Sessions.Revoke(context.WithoutCancel(ctx), req.GetSessionId(), caller.Principal, "revoked by "+caller.Principal.String()); err != nil {
		return nil, err
	}
	return &palyrav1.RevokeConsoleSessionResponse{Session: message}, nil
}

// Whoami returns the identity and the permissions of the caller.
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
		// A vote of the caller proves presence itself, so presence is assumed here.
		asked.Present = p == access.PermApprovalDecide && caller.Paired
		if s.may(asked, p) == nil {
			res.Permissions = append(res.Permissions, string(p))
		}
	}
	if one, ok := s.Console.Sessions.Get(s.Session(ctx)); ok {
		res.Session = s.message(ctx, one)
	}
	return res, nil
}

func (s *ConsoleService) may(caller access.Caller, p access.Permission) error {
	return s.Engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: p})
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
