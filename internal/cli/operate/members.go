package operate

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

var memberListing = printer.Listing{
	Kind:    "Member",
	Columns: []string{"PRINCIPAL", "ROLES", "OWNER", "DISABLED"},
	Wide:    []string{"CREATED"},
	Empty:   "there are no members",
}

// MembersCommand is `palyra members`.
func MembersCommand(program *client.App) *cobra.Command {
	a := &app{program}
	return command.NewGroup("members", "List the users and agents; palyrad operator add makes one", &cobra.Command{
		Use: "list", Short: "List the users and agents that the gateway knows", Args: command.Args(0, 0),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{})
			if err != nil {
				return err
			}
			var records []printer.Record
			for _, m := range reply.GetMembers() {
				records = append(records, printer.Record{
					Name: m.GetPrincipal(), Body: printer.ProtoObject(m),
					Cells: []string{m.GetPrincipal(), strings.Join(m.GetRoles(), ","), m.GetOwner(), printer.Yes(m.GetDisabled())},
					Wide:  []string{printer.Clock(m.GetCreatedAt())},
				})
			}
			return a.PrintList(memberListing, records)
		}),
	})
}
