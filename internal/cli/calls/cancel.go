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
		Long: "Withdraw an approval: one that is pending, so that nobody is asked any more, or\n" +
			"one that was allowed and not used yet. The call that waits for it does not run.\n" +
			"Who asked, who voted and who may decide can do it. To answer no instead, with a\n" +
			"reason for whoever asked, use `palyra approvals decide ID --deny`.",
		Example:           "palyra approvals cancel 01J... --reason \"wrong branch\"",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completeApprovals(true),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.cancelApproval(ctx, g, given[0], why)
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}

func (a *approvalCommands) cancelApproval(ctx context.Context, g *client.Gateway, id, why string) error {
	id, err := findApproval(ctx, g, id)
	if err != nil {
		return err
	}
	reply, err := g.Approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: id, Reason: why})
	if err != nil {
		return err
	}
	return a.printAnswered(reply.GetApproval())
}
