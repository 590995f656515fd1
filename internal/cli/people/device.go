package people

import (
	"context"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/identity"
)

// onDevice logs in by a code that the user confirms on another device (RFC 8628).
func (a *loginCommands) onDevice(ctx context.Context, try attempt) (*palyrav1.LoginSession, error) {
	begun, err := try.gateway.BeginLogin(ctx, &palyrav1.BeginLoginRequest{CertificateRequest: try.request})
	if err != nil {
		return nil, err
	}
	a.Say("Open %s on any device, and confirm the code", printer.VisibleLine(begun.GetVerificationUri()))
	a.Say("  %s", printer.VisibleLine(begun.GetUserCode()))
	if whole := begun.GetVerificationUriComplete(); whole != "" {
		a.Say("or open %s", printer.VisibleLine(whole))
	}
	proof, err := identity.Prove(try.key, identity.LoginProof(begun.GetLoginId(), ""))
	if err != nil {
		return nil, err
	}
	for wait := begun.GetInterval().AsDuration(); ; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(max(wait, a.Retry)):
		}
		reply, err := try.gateway.PollLogin(ctx, &palyrav1.PollLoginRequest{LoginId: begun.GetLoginId(), Proof: proof})
		if err != nil || reply.GetSession() != nil {
			return reply.GetSession(), err
		}
		wait = reply.GetWait().AsDuration()
	}
}
