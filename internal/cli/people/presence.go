package people

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity/keptkey"
	"palyra/internal/identity/presence"
)

// presenceFlags are the flags of `palyra key presence`.
type presenceFlags struct {
	passphrase bool
	confirm    string
}

func (a *keyCommands) presence() *cobra.Command {
	var f presenceFlags
	c := &cobra.Command{
		Use: "presence", Short: "Create the key that proves your presence when you vote", Args: command.Args(0, 0),
		Long: "Create or replace the presence key of this device. It is separate from the key of\n" +
			"your certificate, and must be unlocked for each vote with --present. A\n" +
			"program that runs as you can read the credential, but not the passphrase.\n\n" +
			"The first presence key of a gateway is active at once. Each later one must be\n" +
			"confirmed with --confirm by a user with a presence key (the device's owner, or an\n" +
			"owner), or on the gateway's host by `palyrad presence confirm`. Replacing a key\n" +
			"requires its passphrase; if it is lost, run `palyrad presence reset` on\n" +
			"the gateway's host.",
		Example: "palyra key presence --passphrase\npalyra key presence --confirm 01J...",
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.Connect(cmd.Context())
			if err != nil {
				return err
			}
			prover, err := a.Prover(g)
			if err != nil {
				return err
			}
			if f.confirm != "" {
				return a.confirmPresence(cmd.Context(), g, prover, f.confirm)
			}
			return a.makePresence(cmd.Context(), prover)
		},
	}
	c.Flags().BoolVar(&f.passphrase, "passphrase", false, "create a key with a passphrase")
	c.Flags().StringVar(&f.confirm, "confirm", "", "confirm the presence key of another device")
	c.MarkFlagsOneRequired("passphrase", "confirm")
	c.MarkFlagsMutuallyExclusive("passphrase", "confirm")
	return c
}

func (a *keyCommands) makePresence(ctx context.Context, prover client.Prover) error {
	key, err := presence.NewKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("making a presence key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("making a presence key: %w", err)
	}
	kept, err := a.sealed(ctx, "presence key", public, private)
	if err != nil {
		return err
	}
	registered, err := prover.Register(ctx, kept, key)
	if err != nil {
		return err
	}
	return a.printPresence(prover.Device, kept, registered)
}

// confirmPresence confirms the current key of another device, after showing its owner.
func (a *keyCommands) confirmPresence(ctx context.Context, g *client.Gateway, prover client.Prover, device string) error {
	reply, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{DeviceId: device})
	if err != nil {
		return err
	}
	key := reply.GetPresenceKey()
	if !key.GetWaits() {
		return reason.Errorf(reason.NotFound, "device %s has no unconfirmed presence key", device).
			WithRemedy("Check `palyra devices show %s`.", device)
	}
	a.Say("the presence key of device %s (%s) of %s, made %s:", device, printer.VisibleLine(reply.GetDevice().GetName()), reply.GetDevice().GetPrincipal(), a.Moment(key.GetRegisteredAt()))
	a.Say("  %s", key.GetSha256())
	a.Say("compare it with the output of `palyra key show` on that device")
	confirmed, err := prover.Confirm(ctx, device, key.GetSha256())
	if err != nil {
		return err
	}
	return a.printPresence(device, nil, confirmed)
}

func (a *keyCommands) printPresence(device string, kept *keptkey.Kept, key *palyrav1.PresenceKey) error {
	body := printer.Object{{Name: "device", Value: device}, {Name: "presence_sha256", Value: key.GetSha256()}, {Name: "waits", Value: key.GetWaits()}}
	return a.PrintOne("PresenceKey", printer.Record{Name: device, Body: body}, func(p *printer.Page) {
		p.Field("device", device)
		p.Field("presence", key.GetSha256())
		if kept != nil {
			p.Field("place", string(kept.Place))
		}
		if key.GetWaits() {
			p.Field("waits", "for `palyra key presence --confirm "+device+"` by a user with a presence key, or `palyrad presence confirm "+device+"` on the gateway's host")
			return
		}
		p.Field("counts", "vote with --present")
	})
}
