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
	Empty:   "there are no ceilings",
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
		Use: "ceilings", Short: "List whom and which channels the gateway lets in at all", Args: command.Args(0, 0),
		Long: "List whom and which messaging channels the gateway lets in at all, whatever policies say:\n" +
			"what allowed_principals and allowed_channels of palyra.toml name, and what commands set.\n" +
			"Without a list of channels there, calls come from none but those that are allowed here.",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Reviews.ListCeilings(ctx, &palyrav1.ListCeilingsRequest{})
			if err != nil {
				return err
			}
			return a.PrintList(ceilingListing, printer.Records(reply.GetCeilings(), ceilingRecord))
		}),
	}
}

func (a *reviewCommands) allow() *cobra.Command {
	return a.Waits(a.setCeiling("allow", "Let a principal or a messaging channel in", true,
		"Let a principal in again that `palyra access forbid` keeps out, or a messaging channel.\nNothing that palyra.toml leaves out is let in by it, and policies still decide.",
		"palyra access allow channel:ops\npalyra access allow agent:helper"))
}

func (a *reviewCommands) forbid() *cobra.Command {
	return a.setCeiling("forbid", "Keep a principal or a messaging channel out, whatever policies say", false,
		"Keep an agent, a user or a messaging channel out, whatever policies say; what it has open\nends. For somebody who answers approvals there is `palyra members disable`, which says\nwhat is lost by it.",
		"palyra access forbid agent:helper --reason 'under review'\npalyra access forbid channel:ops")
}

func (a *reviewCommands) setCeiling(verb, short string, allowed bool, long, example string) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Args: command.Args(1, 1), Example: example,
		Long: long + "\nNAME is user:NAME, agent:NAME or channel:NAME.", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Reviews.SetCeiling(ctx, &palyrav1.SetCeilingRequest{Name: strings.TrimSpace(given[0]), Allowed: allowed, Reason: why})
			if err != nil {
				return err
			}
			m := reply.GetCeiling()
			return a.PrintOne("Ceiling", ceilingRecord(m), func(p *printer.Page) {
				p.Field("name", m.GetName())
				p.Field("allowed", printer.Yes(m.GetAllowed()))
				p.Field("set by", m.GetSetBy())
				if m.GetReason() != "" {
					p.Field("reason", m.GetReason())
				}
			})
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}
