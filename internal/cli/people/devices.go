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

// deviceCommands provides the commands of this family.
type deviceCommands struct{ *client.App }

var deviceListing = printer.Listing{
	Kind:    "Device",
	Columns: []string{"ID", "PRINCIPAL", "NAME", "CERTIFICATE ENDS", "REVOKED"},
	Wide:    []string{"CREATED"},
	Empty:   "no devices",
	Drop:    []string{"NAME", "CERTIFICATE ENDS"},
}

// DevicesCommand is `palyra devices`.
func DevicesCommand(program *client.App) *cobra.Command {
	a := &deviceCommands{program}
	list := &cobra.Command{Use: "list", Short: "List the devices", Args: command.Args(0, 0),
		RunE: client.ShowList(a.App, deviceListing, deviceRecord, devicesOf)}
	var why string
	var sure bool
	revoke := &cobra.Command{Use: "revoke ID", Short: "Revoke a device; this cannot be undone", Args: command.Args(1, 1),
		ValidArgsFunction: a.completeDevices(),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.Confirm(cmd.Context(), sure, "Revoke device %s?", given[0]); err != nil {
				return err
			}
			return a.revokeDevice(cmd.Context(), given[0], why, sure)
		}}
	revoke.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	revoke.Flags().BoolVar(&sure, "yes", false, "do not ask to confirm")
	return command.NewGroup("devices", "Show, rename, rotate and revoke devices", list, a.showDevice(), a.renameDevice(), a.rotateDevice(), revoke)
}

func devicesOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Device, error) {
	reply, err := g.Identity.ListDevices(ctx, &palyrav1.ListDevicesRequest{})
	return reply.GetDevices(), err
}

func deviceRecord(d *palyrav1.Device) printer.Record {
	return printer.Record{
		Name: d.GetDeviceId(), Body: printer.ProtoObject(d),
		Cells: []string{d.GetDeviceId(), d.GetPrincipal(), d.GetName(), printer.Clock(d.GetCertificateExpiresAt()), printer.Clock(d.GetRevokedAt())},
		Wide:  []string{printer.Clock(d.GetCreatedAt())},
	}
}

func (a *deviceCommands) renameDevice() *cobra.Command {
	return &cobra.Command{Use: "rename ID NAME", Short: "Rename a device", Args: command.Args(2, 2),
		Long:              "Rename a device. The name is only displayed and has no other effect.",
		ValidArgsFunction: a.completeDevices(),
		RunE: client.ShowOne(a.App, "Device", deviceRecord, func(p *printer.Page, d *palyrav1.Device) {
			p.Field("device", d.GetDeviceId())
			p.Field("of", d.GetPrincipal())
			p.Field("name", d.GetName())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Device, error) {
			reply, err := g.Identity.RenameDevice(ctx, &palyrav1.RenameDeviceRequest{DeviceId: given[0], Name: given[1]})
			return reply.GetDevice(), err
		})}
}

// revokeDevice revokes a device. If users lose the power to answer approvals with it, it warns and
// asks first.
func (a *deviceCommands) revokeDevice(ctx context.Context, id, why string, sure bool) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	req := &palyrav1.RevokeDeviceRequest{DeviceId: id, Reason: why}
	var reply *palyrav1.RevokeDeviceResponse
	err = accepting(ctx, a.App, sure, func(accept bool) (err error) {
		req.AcceptLoss = accept
		reply, err = g.Identity.RevokeDevice(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	// The acts of a lost device are the next thing to review.
	shown, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{DeviceId: reply.GetDevice().GetDeviceId()})
	if err != nil {
		return a.revokedUnseen(reply.GetDevice(), err)
	}
	return a.printDevice(ctx, g, shown, shownActs)
}

// revokedUnseen handles a caller that may revoke a device but not view it, or has revoked its own:
// the revocation is in force nevertheless.
func (a *deviceCommands) revokedUnseen(d *palyrav1.Device, why error) error {
	a.Say("listing its acts failed: %v", why)
	return a.PrintOne("Device", deviceRecord(d), func(p *printer.Page) {
		p.Field("device", d.GetDeviceId())
		p.Field("of", d.GetPrincipal())
		p.Field("revoked", a.Moment(d.GetRevokedAt()))
	})
}

func (a *deviceCommands) completeDevices() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Device, error) {
		devices, err := devicesOf(ctx, g)
		revoked := func(d *palyrav1.Device) bool { return d.GetRevokedAt() != nil }
		return slices.DeleteFunc(devices, revoked), err
	}, func(d *palyrav1.Device) (string, string) {
		return d.GetDeviceId(), d.GetPrincipal() + " " + d.GetName()
	})
}
