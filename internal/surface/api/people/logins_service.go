package people

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/identity"
	"palyra/internal/identity/login"
)

// Gateway is the identity of the gateway for a client that has only its address.
type Gateway struct {
	// Root is the CA as PEM, and ServerName the name in the server certificate.
	Root, ServerName string
}

// LoginService is the LoginService. All fields are required.
type LoginService struct {
	Logins  *login.Service
	Gateway Gateway
	// LogOut ends the session of a device.
	LogOut func(ctx context.Context, deviceID string) error
	// Caller returns the caller of a request. The steps of a login have none.
	Caller func(context.Context) access.Caller
	// Address returns the remote address of a request.
	Address func(context.Context) string
}

// DescribeLogin returns the identity of the gateway and its login methods.
func (s *LoginService) DescribeLogin(context.Context, *palyrav1.DescribeLoginRequest) (*palyrav1.DescribeLoginResponse, error) {
	return &palyrav1.DescribeLoginResponse{
		CaCertificate: s.Gateway.Root, ServerName: s.Gateway.ServerName, Issuer: s.Logins.Issuer, DeviceFlow: s.Logins.DeviceFlow,
	}, nil
}

// BeginLogin starts a login.
func (s *LoginService) BeginLogin(ctx context.Context, req *palyrav1.BeginLoginRequest) (*palyrav1.BeginLoginResponse, error) {
	begun, err := s.Logins.Begin(ctx, login.Request{CSR: req.GetCertificateRequest(), Redirect: req.GetRedirectUri(), Address: s.Address(ctx)})
	if err != nil {
		return nil, err
	}
	return &palyrav1.BeginLoginResponse{
		LoginId: begun.ID, ExpiresAt: timestamppb.New(begun.ExpiresAt), AuthorizationUrl: begun.AuthorizationURL, UserCode: begun.UserCode,
		VerificationUri: begun.VerificationURI, VerificationUriComplete: begun.VerificationURIComplete, Interval: duration(begun.Interval),
	}, nil
}

// CompleteLogin completes a login in a browser.
func (s *LoginService) CompleteLogin(ctx context.Context, req *palyrav1.CompleteLoginRequest) (*palyrav1.CompleteLoginResponse, error) {
	in, err := s.Logins.Complete(ctx, login.Answer{
		ID: req.GetLoginId(), State: req.GetState(), Code: req.GetCode(), Issuer: req.GetIssuer(), Proof: req.GetProof(), Address: s.Address(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &palyrav1.CompleteLoginResponse{Session: s.session(in)}, nil
}

// PollLogin returns the state of a login that is confirmed on another device.
func (s *LoginService) PollLogin(ctx context.Context, req *palyrav1.PollLoginRequest) (*palyrav1.PollLoginResponse, error) {
	in, wait, err := s.Logins.Poll(ctx, login.Question{ID: req.GetLoginId(), Proof: req.GetProof(), Address: s.Address(ctx)})
	switch {
	case err != nil:
		return nil, err
	case wait > 0:
		return &palyrav1.PollLoginResponse{Wait: duration(wait)}, nil
	}
	return &palyrav1.PollLoginResponse{Session: s.session(in)}, nil
}

// EndLogin ends the caller's session.
func (s *LoginService) EndLogin(ctx context.Context, _ *palyrav1.EndLoginRequest) (*palyrav1.EndLoginResponse, error) {
	// The session that ends is the session of this request, so the logout must not be cancelled
	// with it.
	if err := s.LogOut(context.WithoutCancel(ctx), s.Caller(ctx).DeviceID); err != nil {
		return nil, err
	}
	return &palyrav1.EndLoginResponse{}, nil
}

func (s *LoginService) session(in identity.LoggedIn) *palyrav1.LoginSession {
	m := &palyrav1.LoginSession{
		Principal: in.Member.Principal.String(), DeviceId: in.Device.ID, CertificateChain: string(in.Certificate.PEM),
		CaCertificate: s.Gateway.Root, ServerName: s.Gateway.ServerName, EndsAt: timestamppb.New(in.Device.LoginUntil),
	}
	for _, role := range in.Member.Roles {
		m.Roles = append(m.Roles, string(role))
	}
	return m
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
