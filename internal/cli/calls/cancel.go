package calls

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
)

func (a *approvalCommands) approvalsCancel() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "cancel ID",
		Short: "Withdraw an approval that was not used yet",
		Long: "Withdraw an approval: one that is pending, so that it needs no answer, or\n" +
			"one that was allowed and not used yet. The call that waits for it does not run.\n" +
			"The requester, voters and approvers can withdraw it. To deny it instead, with a\n" +
			"reason for the requester, use `palyra approvals decide ID --deny`.",
		Example:           "palyra approvals cancel 01J... --reason \"wrong branch\"",
		Args:              command.Args(1, 1),
		ValidArgsFunction: completeApprovals(a.App, true),
		RunE: client.ShowOne(a.App, "Approval", recordOf(a.App), answeredPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Approval, error) {
			id, err := findApproval(ctx, g, given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: id, Reason: why})
			return reply.GetApproval(), err
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}
