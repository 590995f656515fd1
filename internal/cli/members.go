package cli

import (
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

var memberListing = listing{
	kind:    "Member",
	columns: []string{"PRINCIPAL", "ROLES", "OWNER", "DISABLED"},
	wide:    []string{"CREATED"},
	empty:   "there are no members",
}

func (a *app) membersCommand() *cobra.Command {
	return newGroup("members", "List the users and agents; palyrad operator add makes one", &cobra.Command{
		Use: "list", Short: "List the users and agents that the gateway knows", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			reply, err := g.access.ListMembers(cmd.Context(), &palyrav1.ListMembersRequest{})
			if err != nil {
				return err
			}
			var records []record
			for _, m := range reply.GetMembers() {
				records = append(records, record{
					name: m.GetPrincipal(), body: protoObject(m),
					cells: []string{m.GetPrincipal(), strings.Join(m.GetRoles(), ","), m.GetOwner(), yes(m.GetDisabled())},
					wide:  []string{clock(m.GetCreatedAt())},
				})
			}
			return a.printList(memberListing, records)
		},
	})
}
