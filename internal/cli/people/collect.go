package people

import (
	"context"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/pairing"
)

// longest is the maximum pause before a lost connection is reopened while this machine waits; the
// first pause is short.
const longest = 10 * time.Second

// collect waits for the approval of this machine, and stores the certificate. The gateway's CA is
// known now, so any connection can be used.
func (a *pairingCommands) collect(ctx context.Context, j *joining, c *pairing.Candidate, b identity.Bundle) error {
	if digits := c.Comparison(); digits != "" {
		a.Say("comparison code: %s", digits)
		a.Say("The approver of this machine must see the same six digits: `palyra approvals list`, then")
		a.Say("`palyra approve ID`. If they differ, deny it: the connection is intercepted.")
	}
	a.Say("key %s; waiting for approval ...", c.KeySHA256())
	pause := a.Retry
	for {
		reply, err := a.collectOnce(ctx, j, c, b)
		switch {
		case err == nil && !reply.GetWaiting():
			return a.finish(j, b, reply)
		case err == nil:
			pause = a.Retry
			continue
		case ctx.Err() != nil:
			a.Say("interrupted; repeat the command to continue")
			return ctx.Err()
		}
		if e := client.Explain(nil, err); !passing(e) {
			return a.over(j, e)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// collectOnce polls on one connection until there is an answer.
func (a *pairingCommands) collectOnce(ctx context.Context, j *joining, c *pairing.Candidate, b identity.Bundle) (*palyrav1.CollectPairingResponse, error) {
	bare, err := a.Dialer.Bare(ctx, j.address, b.Root, b.ServerName)
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	msg, err := c.Collection(bare.Seen.Exporter)
	if err != nil {
		return nil, err
	}
	return bare.CollectPairing(ctx, &palyrav1.CollectPairingRequest{CertificateRequest: msg.Request, Signature: msg.Signature})
}

// passing reports whether an error is temporary: the gateway is unreachable or overloaded.
func passing(e *reason.Error) bool {
	switch e.Code {
	case reason.NotConnected, reason.RateLimited, reason.ShuttingDown, reason.JournalUnavailable, reason.Cancelled:
		return true
	default:
		return false
	}
}

// over removes the prepared bundle, which will not receive a certificate.
func (a *pairingCommands) over(j *joining, why *reason.Error) error {
	if err := identity.RemovePending(j.dir); err != nil {
		a.Say("warning: %v", err)
	}
	if why.Remedy == "" {
		return why.WithRemedy("Pair again with a new code: `palyra pairing code` where you can use the gateway.")
	}
	return why
}
