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

// presenceFlags say what `palyra key presence` does.
type presenceFlags struct {
	passphrase bool
	confirm    string
}

func (a *keyCommands) presence() *cobra.Command {
	var f presenceFlags
	c := &cobra.Command{
		Use: "presence", Short: "Make the key that proves that you are there when you vote", Args: command.Args(0, 0),
		Long: "Make the presence key of this device, or another in its place. It is a key of its own\n" +
			"beside that of your certificate, and has to be unlocked for each vote with --present. A\n" +
			"program that runs as you can read the credential; it does not have the passphrase.\n\n" +
			"The first presence key of a gateway counts at once. Each later one waits until\n" +
			"somebody with a presence key confirms it with --confirm (whose device it is, or an\n" +
			"owner), or the gateway's host by `palyrad presence confirm`. Another key in place of\n" +
			"one takes the passphrase of that one; if it is forgotten, `palyrad presence reset` on\n" +
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
	c.Flags().BoolVar(&f.passphrase, "passphrase", false, "make a key under a passphrase")
	c.Flags().StringVar(&f.confirm, "confirm", "", "let the presence key of another device count")
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

// confirmPresence confirms the key that another device has now, once the person saw
// whose it is.
func (a *keyCommands) confirmPresence(ctx context.Context, g *client.Gateway, prover client.Prover, device string) error {
	reply, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{DeviceId: device})
	if err != nil {
		return err
	}
	key := reply.GetPresenceKey()
	if !key.GetWaits() {
		return reason.Errorf(reason.NotFound, "no presence key of device %s waits to be confirmed", device).
			WithRemedy("See `palyra devices show %s`.", device)
	}
	a.Say("the presence key of device %s (%s) of %s, made %s:", device, printer.VisibleLine(reply.GetDevice().GetName()), reply.GetDevice().GetPrincipal(), a.Moment(key.GetRegisteredAt()))
	a.Say("  %s", key.GetSha256())
	a.Say("compare it with what `palyra key show` says there")
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
			p.Field("waits", "for `palyra key presence --confirm "+device+"` by somebody with a presence key, or `palyrad presence confirm "+device+"` on the gateway's host")
			return
		}
		p.Field("counts", "vote with --present")
	})
}
