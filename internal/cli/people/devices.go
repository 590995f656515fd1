package people

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

var deviceListing = printer.Listing{
	Kind:    "Device",
	Columns: []string{"ID", "PRINCIPAL", "NAME", "CERTIFICATE ENDS", "REVOKED"},
	Wide:    []string{"CREATED"},
	Empty:   "there are no devices",
	Drop:    []string{"NAME", "CERTIFICATE ENDS"},
}

// DevicesCommand is `palyra devices`.
func DevicesCommand(program *client.App) *cobra.Command {
	a := &operateCommands{program}
	list := &cobra.Command{Use: "list", Short: "List the devices", Args: command.Args(0, 0),
		RunE: a.Connected(a.listDevices)}
	var why string
	var sure bool
	revoke := &cobra.Command{Use: "revoke ID", Short: "Refuse a device from now on; this cannot be undone", Args: command.Args(1, 1),
		ValidArgsFunction: a.completeDevices(),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.Confirm(cmd.Context(), sure, "Refuse device %s from now on?", given[0]); err != nil {
				return err
			}
			return a.revokeDevice(cmd.Context(), given[0], why, sure)
		}}
	revoke.Flags().StringVar(&why, "reason", "", "why, for the journal")
	revoke.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return command.NewGroup("devices", "Show, rename, rotate and revoke devices", list, a.showDevice(), a.renameDevice(), a.rotateDevice(), revoke)
}

func (a *operateCommands) listDevices(ctx context.Context, g *client.Gateway, _ []string) error {
	reply, err := g.Identity.ListDevices(ctx, &palyrav1.ListDevicesRequest{})
	if err != nil {
		return err
	}
	return a.PrintList(deviceListing, printer.Records(reply.GetDevices(), deviceRecord))
}

func deviceRecord(d *palyrav1.Device) printer.Record {
	return printer.Record{
		Name: d.GetDeviceId(), Body: printer.ProtoObject(d),
		Cells: []string{d.GetDeviceId(), d.GetPrincipal(), d.GetName(), printer.Clock(d.GetCertificateExpiresAt()), printer.Clock(d.GetRevokedAt())},
		Wide:  []string{printer.Clock(d.GetCreatedAt())},
	}
}

func (a *operateCommands) renameDevice() *cobra.Command {
	return &cobra.Command{Use: "rename ID NAME", Short: "Give a device another name", Args: command.Args(2, 2),
		Long:              "Give a device another name, so that people tell it from others. Nothing follows from it.",
		ValidArgsFunction: a.completeDevices(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Identity.RenameDevice(ctx, &palyrav1.RenameDeviceRequest{DeviceId: given[0], Name: given[1]})
			if err != nil {
				return err
			}
			d := reply.GetDevice()
			return a.PrintOne("Device", deviceRecord(d), func(p *printer.Page) {
				p.Field("device", d.GetDeviceId())
				p.Field("of", d.GetPrincipal())
				p.Field("name", d.GetName())
			})
		})}
}

// revokeDevice revokes a device. Where somebody loses the power to answer
// approvals with it, that is said first, and asked.
func (a *operateCommands) revokeDevice(ctx context.Context, id, why string, sure bool) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	req := &palyrav1.RevokeDeviceRequest{DeviceId: id, Reason: why}
	var reply *palyrav1.RevokeDeviceResponse
	err = a.accepting(ctx, sure, func(accept bool) (err error) {
		req.AcceptLoss = accept
		reply, err = g.Identity.RevokeDevice(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	// What was done with a lost device is what to look at next.
	shown, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{DeviceId: reply.GetDevice().GetDeviceId()})
	if err != nil {
		return a.revokedUnseen(reply.GetDevice(), err)
	}
	return a.printDevice(ctx, g, shown, shownActs)
}

// revokedUnseen is for somebody who may revoke a device and not look at it, or has
// revoked their own: the revocation is in force all the same.
func (a *operateCommands) revokedUnseen(d *palyrav1.Device, why error) error {
	a.Say("what was done with it cannot be shown: %v", why)
	return a.PrintOne("Device", deviceRecord(d), func(p *printer.Page) {
		p.Field("device", d.GetDeviceId())
		p.Field("of", d.GetPrincipal())
		p.Field("revoked", a.Moment(d.GetRevokedAt()))
	})
}

func (a *operateCommands) completeDevices() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Device, error) {
		reply, err := g.Identity.ListDevices(ctx, &palyrav1.ListDevicesRequest{})
		revoked := func(d *palyrav1.Device) bool { return d.GetRevokedAt() != nil }
		return slices.DeleteFunc(reply.GetDevices(), revoked), err
	}, func(d *palyrav1.Device) (string, string) {
		return d.GetDeviceId(), d.GetPrincipal() + " " + d.GetName()
	})
}
