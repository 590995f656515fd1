package people

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// rotateDevice is `palyra devices rotate`.
func (a *deviceCommands) rotateDevice() *cobra.Command {
	var self bool
	c := &cobra.Command{Use: "rotate [ID | --self]", Short: "Give the device of this credential bundle a new key now", Args: command.Args(0, 1),
		Long:    "Give the device of this credential bundle a new key now, for example if the old one may be compromised. The old key works for five more minutes; later use is refused and raises an alarm (PAL-I151).\n\nA device can rotate only its own key: revoke other devices with `palyra devices revoke ID`.",
		Example: "palyra devices rotate --self",
		RunE: func(cmd *cobra.Command, given []string) error {
			if self == (len(given) > 0) {
				return command.Usage("specify the id of this bundle's device, or --self")
			}
			id := ""
			if len(given) > 0 {
				id = given[0]
			}
			return a.rotate(cmd.Context(), id)
		}}
	c.Flags().BoolVar(&self, "self", false, "the device of this bundle")
	return c
}

func (a *deviceCommands) rotate(ctx context.Context, id string) error {
	g, err := a.Rotate(ctx, id)
	if err != nil {
		return err
	}
	// The first use of the new key ends the old one.
	reply, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{})
	if err != nil {
		return err
	}
	d := reply.GetDevice()
	return a.PrintOne("Device", printer.Record{Name: d.GetDeviceId(), Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
		a.deviceFields(p, reply)
	})
}
