package people

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

var ceilingListing = printer.Listing{
	Kind:    "Ceiling",
	Columns: []string{"NAME", "ALLOWED", "SET BY"},
	Wide:    []string{"AT", "REASON"},
	Empty:   "no ceilings",
}

func ceilingRecord(c *palyrav1.Ceiling) printer.Record {
	by := c.GetSetBy()
	if by == "" {
		by = "the configuration"
	}
	return printer.Record{
		Name: c.GetName(), Body: printer.ProtoObject(c),
		Cells: []string{c.GetName(), printer.Yes(c.GetAllowed()), by},
		Wide:  []string{printer.Clock(c.GetAt()), c.GetReason()},
	}
}

func (a *reviewCommands) ceilings() *cobra.Command {
	return &cobra.Command{
		Use: "ceilings", Short: "List the principals and channels that the gateway admits", Args: command.Args(0, 0),
		Long: "List the principals and messaging channels that the gateway admits, regardless of policies:\n" +
			"those in allowed_principals and allowed_channels of palyra.toml, and those set by commands.\n" +
			"Without a list in palyra.toml, only channels that are allowed here can be used.",
		RunE: client.ShowList(a.App, ceilingListing, ceilingRecord, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Ceiling, error) {
			reply, err := g.Reviews.ListCeilings(ctx, &palyrav1.ListCeilingsRequest{})
			return reply.GetCeilings(), err
		}),
	}
}

func (a *reviewCommands) allow() *cobra.Command {
	return a.Waits(a.setCeiling("allow", "Admit a principal or a messaging channel", true,
		"Admit a principal again after `palyra access forbid`, or admit a messaging channel.\nIt does not extend the lists in palyra.toml, and policies still decide.",
		"palyra access allow channel:ops\npalyra access allow agent:helper"))
}

func (a *reviewCommands) forbid() *cobra.Command {
	return a.setCeiling("forbid", "Exclude a principal or a messaging channel, regardless of policies", false,
		"Exclude an agent, a user or a messaging channel, regardless of policies; its open streams\nand runs end. For users who answer approvals use `palyra members disable`, which warns\nabout the consequences.",
		"palyra access forbid agent:helper --reason 'under review'\npalyra access forbid channel:ops")
}

func (a *reviewCommands) setCeiling(verb, short string, allowed bool, long, example string) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Args: command.Args(1, 1), Example: example,
		Long: long + "\nNAME is user:NAME, agent:NAME or channel:NAME.", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Ceiling", ceilingRecord, func(p *printer.Page, m *palyrav1.Ceiling) {
			p.Field("name", m.GetName())
			p.Field("allowed", printer.Yes(m.GetAllowed()))
			p.Field("set by", m.GetSetBy())
			p.Field("reason", m.GetReason())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Ceiling, error) {
			reply, err := g.Reviews.SetCeiling(ctx, &palyrav1.SetCeilingRequest{Name: strings.TrimSpace(given[0]), Allowed: allowed, Reason: why})
			return reply.GetCeiling(), err
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	return c
}
