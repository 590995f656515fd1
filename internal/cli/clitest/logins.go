package clitest

import (
	"crypto/x509"
	"net/url"
	"time"

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

// Logins are the logins under way.
type Logins struct {
	request *x509.CertificateRequest
	// Refused makes the gateway refuse users who return from the provider.
	Refused bool
	// Asked is the number of polls for the confirmation of a code; the second poll succeeds.
	Asked int
}

func serveLogins(f *Gateway) {
	f.reply(&palyrav1.EndLoginResponse{})
	on(f, func(*palyrav1.DescribeLoginRequest) (*palyrav1.DescribeLoginResponse, error) {
		return &palyrav1.DescribeLoginResponse{CaCertificate: certificatePEM(f.w.CA.Cert), ServerName: serverName, Issuer: "https://id.test", DeviceFlow: true}, nil
	})
	on(f, func(req *palyrav1.BeginLoginRequest) (_ *palyrav1.BeginLoginResponse, err error) {
		res := &palyrav1.BeginLoginResponse{LoginId: LoginID, ExpiresAt: timestamppb.New(time.Now().Add(time.Minute))}
		if req.GetRedirectUri() == "" {
			res.UserCode, res.VerificationUri, res.Interval = UserCode, "https://id.test/activate", durationpb.New(time.Millisecond)
		} else {
			res.AuthorizationUrl = "https://id.test/authorize?" + url.Values{"state": {LoginState}, "redirect_uri": {req.GetRedirectUri()}}.Encode()
		}
		f.Logins.request, err = x509.ParseCertificateRequest(req.GetCertificateRequest())
		return res, err
	})
	on(f, func(req *palyrav1.CompleteLoginRequest) (*palyrav1.CompleteLoginResponse, error) {
		session, err := f.loginSession(identity.LoginProof(req.GetLoginId(), LoginCode), req.GetProof())
		if req.GetState() != LoginState {
			err = errLoginRefused
		}
		return &palyrav1.CompleteLoginResponse{Session: session}, err
	})
	on(f, func(req *palyrav1.PollLoginRequest) (*palyrav1.PollLoginResponse, error) {
		if f.Logins.Asked++; f.Logins.Asked == 1 {
			return &palyrav1.PollLoginResponse{Wait: durationpb.New(time.Millisecond)}, nil
		}
		session, err := f.loginSession(identity.LoginProof(req.GetLoginId(), ""), req.GetProof())
		return &palyrav1.PollLoginResponse{Session: session}, err
	})
}

var errLoginRefused = reason.Errorf(reason.LoginRefused, "there is no such login")

// loginSession returns the certificate for the key that started the login. The caller holds Mu.
func (f *Gateway) loginSession(what string, proof []byte) (*palyrav1.LoginSession, error) {
	l := &f.Logins
	if l.Refused || l.request == nil || !identity.Proven(l.request.PublicKey, what, proof) {
		return nil, errLoginRefused
	}
	ends := time.Now().Add(time.Hour)
	return &palyrav1.LoginSession{
		Principal: "user:ada", Roles: []string{"operator"}, DeviceId: BundleDevice,
		CertificateChain: certificatePEM(f.w.deviceCertificate(BundleDevice, l.request.PublicKey, time.Now().Add(-time.Hour), ends)),
		CaCertificate:    certificatePEM(f.w.CA.Cert), ServerName: serverName, EndsAt: timestamppb.New(ends),
	}, nil
}
