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

// signFlags are a vote as flags.
type signFlags struct {
	decideFlags
	yes bool
}

func (a *approvalCommands) approvalsSign() *cobra.Command {
	var f signFlags
	c := &cobra.Command{
		Use: "sign ID (--allow | --deny --reason TEXT)", Short: "Sign a vote that others bring to the gateway", Args: command.Args(1, 1),
		Long: "Sign a vote with the key of this device, and print it. Whoever gets it can bring it to\nthe gateway (POST /webhooks/v1/decisions) within 15 minutes, and can neither change\nit nor make another: it says which call you saw. It is a yes for once, or a no.",
		Example: "palyra approvals sign 01J... --allow --digest sha256:... > vote.json\n" +
			"palyra approvals sign 01J... --deny --reason \"not on a Friday\" --digest sha256:...",
		ValidArgsFunction: a.completeApprovals(true),
		RunE:              func(cmd *cobra.Command, given []string) error { return a.sign(cmd.Context(), given[0], f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.yes, "allow", false, "say yes, once")
	flags.BoolVar(&f.deny, "deny", false, "say no")
	flags.StringVar(&f.reason, "reason", "", "why; required with --deny")
	flags.StringVar(&f.digest, "digest", "", "the call digest you saw; required without a terminal")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	return c
}

func (a *approvalCommands) sign(ctx context.Context, given string, f signFlags) error {
	v := ask.Vote{Allow: f.yes, Reason: f.reason, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE}
	switch {
	case f.yes == f.deny:
		return command.Usage("say either --allow or --deny")
	case f.digest == "" && !a.Interactive():
		return command.Usage("--digest is required without a terminal: it pins the call you saw").
			WithRemedy("See the call and its digest with `palyra approvals show %s`.", given)
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
