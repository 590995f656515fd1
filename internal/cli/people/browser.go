package people

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/browser"
	"palyra/internal/cli/printer"
	"palyra/internal/identity"
)

// inBrowser logs in with a browser on this machine.
func (a *loginCommands) inBrowser(ctx context.Context, try attempt) (*palyrav1.LoginSession, error) {
	l, err := browser.Listen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	begun, err := try.gateway.BeginLogin(ctx, &palyrav1.BeginLoginRequest{CertificateRequest: try.request, RedirectUri: l.Redirect()})
	if err != nil {
		return nil, err
	}
	a.Say("Open this page in a browser on this machine, and log in:")
	a.Say("  %s", printer.VisibleLine(begun.GetAuthorizationUrl()))
	back, err := l.Await(ctx, begun.GetAuthorizationUrl(), begun.GetExpiresAt().AsTime())
	if err != nil {
		return nil, err
	}
	proof, err := identity.Prove(try.key, identity.LoginProof(begun.GetLoginId(), back.Get("code")))
	if err != nil {
		return nil, err
	}
	done, err := try.gateway.CompleteLogin(ctx, &palyrav1.CompleteLoginRequest{
		LoginId: begun.GetLoginId(), State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"), Proof: proof,
	})
	return done.GetSession(), err
}
