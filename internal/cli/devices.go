package cli

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

var deviceListing = listing{
	kind:    "Device",
	columns: []string{"ID", "PRINCIPAL", "NAME", "CERTIFICATE ENDS", "REVOKED"},
	wide:    []string{"CREATED"},
	empty:   "there are no devices",
	drop:    []string{"NAME", "CERTIFICATE ENDS"},
}

func (a *app) devicesCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the devices", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listDevices(cmd.Context()) }}
	var why string
	var sure bool
	revoke := &cobra.Command{Use: "revoke ID", Short: "Refuse a device from now on; this cannot be undone", Args: args(1, 1),
		ValidArgsFunction: a.completeDevices,
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.confirm(cmd.Context(), sure, "Refuse device %s from now on?", given[0]); err != nil {
				return err
			}
			return a.revokeDevice(cmd.Context(), given[0], why)
		}}
	revoke.Flags().StringVar(&why, "reason", "", "why, for the journal")
	revoke.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return newGroup("devices", "List and revoke devices", list, revoke)
}

func (a *app) listDevices(ctx context.Context) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.identity.ListDevices(ctx, &palyrav1.ListDevicesRequest{})
	if err != nil {
		return err
	}
	var records []record
	for _, d := range reply.GetDevices() {
		records = append(records, deviceRecord(d))
	}
	return a.printList(deviceListing, records)
}

func deviceRecord(d *palyrav1.Device) record {
	return record{
		name: d.GetDeviceId(), body: protoObject(d),
		cells: []string{d.GetDeviceId(), d.GetPrincipal(), d.GetName(), clock(d.GetCertificateExpiresAt()), clock(d.GetRevokedAt())},
		wide:  []string{clock(d.GetCreatedAt())},
	}
}

func (a *app) revokeDevice(ctx context.Context, id, why string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.identity.RevokeDevice(ctx, &palyrav1.RevokeDeviceRequest{DeviceId: id, Reason: why})
	if err != nil {
		return err
	}
	d := reply.GetDevice()
	return a.printOne("Device", deviceRecord(d), func(p *page) {
		p.field("device", d.GetDeviceId())
		p.field("of", d.GetPrincipal())
		p.field("revoked", a.moment(d.GetRevokedAt()))
	})
}
