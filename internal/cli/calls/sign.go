package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/command"
	"palyra/internal/identity/signedvote"
)

// signFlags are the flags of a vote.
type signFlags struct {
	decideFlags
	yes bool
}

func (a *answerCommands) approvalsSign() *cobra.Command {
	var f signFlags
	c := &cobra.Command{
		Use: "sign ID (--allow | --deny --reason TEXT)", Short: "Sign a vote that another program sends to the gateway", Args: command.Args(1, 1),
		Long: "Sign a vote with the key of this device, and print it. Any program can send it to\nthe gateway (POST /webhooks/v1/decisions) within 15 minutes, but can neither change\nit nor create another: it contains the call that you reviewed. It is a single\napproval, or a denial.",
		Example: "palyra approvals sign 01J... --allow --digest sha256:... > vote.json\n" +
			"palyra approvals sign 01J... --deny --reason \"not on a Friday\" --digest sha256:...",
		ValidArgsFunction: completeApprovals(a.App, true),
		RunE:              func(cmd *cobra.Command, given []string) error { return a.sign(cmd.Context(), given[0], f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.yes, "allow", false, "allow the call once")
	flags.BoolVar(&f.deny, "deny", false, "deny the call")
	flags.StringVar(&f.reason, "reason", "", "the reason; required with --deny")
	flags.StringVar(&f.digest, "digest", "", "the digest of the call that you reviewed; required without a terminal")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	return c
}

func (a *answerCommands) sign(ctx context.Context, given string, f signFlags) error {
	v := ask.Vote{Allow: f.yes, Reason: f.reason, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE}
	switch {
	case f.yes == f.deny:
		return command.Usage("either --allow or --deny is required")
	case f.digest == "" && !a.Interactive():
		return command.Usage("--digest is required without a terminal: it identifies the call that you reviewed").
			WithRemedy("Show the call and its digest with `palyra approvals show %s`.", given)
	}
	if !v.Allow {
		v.Scope = palyrav1.ApprovalScope_APPROVAL_SCOPE_UNSPECIFIED
	}
	if err := v.Check(); err != nil {
		return err
	}
	if err := command.CheckDigest(f.digest); err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	id, err := findApproval(ctx, g, given)
	if err != nil {
		return err
	}
	digest := f.digest
	if a.Interactive() {
		if _, digest, err = a.decideSeen(ctx, g, id, v, true, f.decideFlags); err != nil {
			return err
		}
	}
	reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil {
		return err
	}
	device, err := a.Device(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	signed, err := signedvote.Sign(device.Key, device.Chain, signedvote.Vote{
		Gateway: device.Chain[0].URIs[0].Host, Approval: id, Version: reply.GetApproval().GetVersion(), CallDigest: digest,
		Allow: v.Allow, Reason: v.Reason, SignedAt: now, ExpiresAt: now.Add(signedvote.Longest),
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(signed, "", "  ")
	if err != nil {
		return fmt.Errorf("writing a signed vote: %w", err)
	}
	return a.WriteRaw(append(text, '\n'))
}
