package clitest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// These constants are the login of the fake gateway.
const (
	LoginID    = "LOGIN000000000000000000000"
	LoginState = "STATE000000000000000000000"
	LoginCode  = "CODE0000000000000000000000"
	UserCode   = "WDJB-MJHT"
)

// Logins are the requests of logins.
type Logins struct {
	request *x509.CertificateRequest
	// Refused makes the gateway refuse users who return from the provider.
	Refused bool
	// Asked is the number of polls for the confirmation of a code; the second poll succeeds. Ended
	// is the number of logouts.
	Asked, Ended int
}

type fakeLogins struct{ w *World }

func (s fakeLogins) DescribeLogin(context.Context, *palyrav1.DescribeLoginRequest) (*palyrav1.DescribeLoginResponse, error) {
	return &palyrav1.DescribeLoginResponse{CaCertificate: certificatePEM(s.w.CA.Cert), ServerName: serverName, Issuer: "https://id.test", DeviceFlow: true}, nil
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func (s fakeLogins) BeginLogin(_ context.Context, req *palyrav1.BeginLoginRequest) (*palyrav1.BeginLoginResponse, error) {
	request, err := x509.ParseCertificateRequest(req.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	s.w.Gateway.Mu.Lock()
	s.w.Gateway.Logins.request = request
	s.w.Gateway.Mu.Unlock()
	res := &palyrav1.BeginLoginResponse{LoginId: LoginID, ExpiresAt: timestamppb.New(time.Now().Add(time.Minute))}
	if req.GetRedirectUri() == "" {
		res.UserCode, res.VerificationUri, res.Interval = UserCode, "https://id.test/activate", durationpb.New(time.Millisecond)
		return res, nil
	}
	res.AuthorizationUrl = "https://id.test/authorize?" + url.Values{"state": {LoginState}, "redirect_uri": {req.GetRedirectUri()}}.Encode()
	return res, nil
}

func (s fakeLogins) CompleteLogin(_ context.Context, req *palyrav1.CompleteLoginRequest) (*palyrav1.CompleteLoginResponse, error) {
	session, err := s.session(identity.LoginProof(req.GetLoginId(), LoginCode), req.GetProof())
	if err != nil || req.GetState() != LoginState {
		return nil, refusedLogin()
	}
	return &palyrav1.CompleteLoginResponse{Session: session}, nil
}

func (s fakeLogins) PollLogin(_ context.Context, req *palyrav1.PollLoginRequest) (*palyrav1.PollLoginResponse, error) {
	s.w.Gateway.Mu.Lock()
	s.w.Gateway.Logins.Asked++
	first := s.w.Gateway.Logins.Asked == 1
	s.w.Gateway.Mu.Unlock()
	if first {
		return &palyrav1.PollLoginResponse{Wait: durationpb.New(time.Millisecond)}, nil
	}
	session, err := s.session(identity.LoginProof(req.GetLoginId(), ""), req.GetProof())
	return &palyrav1.PollLoginResponse{Session: session}, err
}

func refusedLogin() error {
	return GatewayError(connect.CodePermissionDenied, reason.LoginRefused, "there is no such login", nil)
}

// session returns the certificate for the key that started the login.
func (s fakeLogins) session(what string, proof []byte) (*palyrav1.LoginSession, error) {
	s.w.Gateway.Mu.Lock()
	defer s.w.Gateway.Mu.Unlock()
	l := &s.w.Gateway.Logins
	if l.Refused || l.request == nil || !identity.Proven(l.request.PublicKey, what, proof) {
		return nil, refusedLogin()
	}
	ends := time.Now().Add(time.Hour)
	cert := s.w.CA.Sign(s.w.T, &x509.Certificate{
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/device/01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, l.request.PublicKey)
	return &palyrav1.LoginSession{
		Principal: "user:ada", Roles: []string{"operator"}, DeviceId: "01ARZ3NDEKTSV4RRFFQ69G5FAV", CertificateChain: certificatePEM(cert),
		CaCertificate: certificatePEM(s.w.CA.Cert), ServerName: serverName, EndsAt: timestamppb.New(ends),
	}, nil
}

func (s fakeLogins) EndLogin(context.Context, *palyrav1.EndLoginRequest) (*palyrav1.EndLoginResponse, error) {
	s.w.Gateway.Mu.Lock()
	defer s.w.Gateway.Mu.Unlock()
	s.w.Gateway.Logins.Ended++
	return &palyrav1.EndLoginResponse{}, nil
}
