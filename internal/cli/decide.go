package cli

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// decideFlags is an answer as flags.
type decideFlags struct {
	allow, match, digest, reason, ttl string
	deny, sure                        bool
}

func (a *app) approvalsDecide() *cobra.Command {
	var f decideFlags
	c := &cobra.Command{
		Use:   "decide ID (--allow SCOPE | --deny --reason TEXT)",
		Short: "Answer an approval",
		Long: "Answer an approval: one vote of yours. In a terminal the call is shown in full\n" +
			"first; without one, --digest says which call you saw, and the answer counts\n" +
			"for that call only.",
		Example: "palyra approvals decide 01J... --allow once --digest sha256:...\n" +
			"palyra approvals decide 01J... --allow timeboxed --for 30m --match subject --digest sha256:...\n" +
			"palyra approvals decide 01J... --deny --reason \"not on a Friday\" --digest sha256:...",
		Args:              args(1, 1),
		ValidArgsFunction: a.completeApprovals(true),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.decide(cmd.Context(), given[0], f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.allow, "allow", "", "say yes: once, session or timeboxed")
	flags.StringVar(&f.ttl, "for", "", "how long a timeboxed yes holds: 1m to 7d")
	flags.StringVar(&f.match, "match", "", "which calls a session or timeboxed yes covers: exact (default), subject or tool")
	flags.StringVar(&f.digest, "digest", "", "the call digest you saw; required without a terminal")
	flags.BoolVar(&f.deny, "deny", false, "say no")
	flags.StringVar(&f.reason, "reason", "", "why; required with --deny")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	complete := func(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = c.RegisterFlagCompletionFunc("allow", complete("once", "session", "timeboxed"))
	_ = c.RegisterFlagCompletionFunc("match", complete("exact", "subject", "tool"))
	_ = c.RegisterFlagCompletionFunc("for", complete("10m", "30m", "2h", "1d"))
	return c
}

// vote reads the flags; given is false when they hold no answer.
func (f decideFlags) vote() (v vote, given bool, err error) {
	switch {
	case f.deny && f.allow != "":
		return vote{}, false, usage("--allow and --deny exclude each other")
	case f.deny && (f.ttl != "" || f.match != ""):
		return vote{}, false, usage("--for and --match belong to --allow")
	case f.deny:
		v = vote{reason: f.reason}
		return v, true, v.check()
	case f.allow == "":
		return vote{}, false, nil
	}
	v = vote{allow: true, reason: f.reason}
	if v.scope, err = parseEnum[palyrav1.ApprovalScope]("allow", f.allow); err != nil {
		return vote{}, false, err
	}
	if f.match != "" {
		if v.match, err = parseEnum[palyrav1.GrantMatch]("match", f.match); err != nil {
			return vote{}, false, err
		}
	}
	if f.ttl != "" {
		if v.ttl, err = parseSpan(f.ttl); err != nil {
			return vote{}, false, err
		}
	}
	return v, true, v.check()
}

func (a *app) decide(ctx context.Context, id string, f decideFlags) error {
	v, given, err := f.vote()
	if err != nil {
		return err
	}
	if !given && !a.interactive() {
		return usage("no answer given").WithRemedy("Add --allow once|session|timeboxed, or --deny --reason TEXT.")
	}
	if f.digest == "" && !a.interactive() {
		return usage("--digest is required without a terminal: it pins the call you saw").
			WithRemedy("See the call and its digest with `palyra approvals show %s`.", id)
	}
	if err := checkDigest(f.digest); err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if id, err = g.approvalID(ctx, id); err != nil {
		return err
	}
	digest := f.digest
	if digest == "" || !given {
		if v, digest, err = a.decideSeen(ctx, g, id, v, given, f); err != nil {
			return err
		}
	}
	if v.leave {
		a.say("approval %s stays pending", id)
		return nil
	}
	return a.cast(ctx, g, id, v, digest)
}

// decideSeen shows the approval in full and returns the answer to it together
// with the digest of the call that was shown.
func (a *app) decideSeen(ctx context.Context, g *gateway, id string, v vote, given bool, f decideFlags) (vote, string, error) {
	reply, err := g.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil {
		return vote{}, "", err
	}
	shown := reply.GetApproval()
	if shown.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		return vote{}, "", reason.Errorf(reason.ApprovalConflict, "approval %s is %s already", id, short(shown.GetState()))
	}
	if f.digest != "" && f.digest != shown.GetCallDigest() {
		return vote{}, "", reason.Errorf(reason.DigestMismatch, "the call that waits is another than the one of --digest").
			WithField("waiting", shown.GetCallDigest()).WithField("given", f.digest)
	}
	a.showPrompt(shown)
	if !given {
		v, err = a.askVote(ctx, shown)
		return v, shown.GetCallDigest(), err
	}
	return v, shown.GetCallDigest(), a.confirmVote(ctx, v, f.sure)
}

// confirmVote asks whether the vote given as flags stands, now that the call
// was shown.
func (a *app) confirmVote(ctx context.Context, v vote, sure bool) error {
	if sure {
		return nil
	}
	word := "deny"
	if v.allow {
		word = "allow"
	}
	answer, err := a.ask(ctx, "type "+word+" to confirm> ")
	if err != nil {
		return err
	}
	if answer != word {
		a.say("not confirmed; the approval stays pending")
		return exitError{1}
	}
	return nil
}

// showPrompt prints an approval to stderr in full, for somebody who is about
// to answer it.
func (a *app) showPrompt(v *palyrav1.Approval) {
	p := &page{style: a.errStyle()}
	p.gap()
	a.approvalPage(p, v)
	_, _ = a.err.Write([]byte(p.String()))
}

// cast sends the vote and prints the approval after it.
func (a *app) cast(ctx context.Context, g *gateway, id string, v vote, digest string) error {
	reply, err := g.approvals.DecideApproval(ctx, v.request(id, digest))
	if err != nil {
		return err
	}
	return a.printAnswered(reply.GetApproval())
}

// printAnswered prints where an approval stands now.
func (a *app) printAnswered(after *palyrav1.Approval) error {
	return a.printOne("Approval", a.approvalRecord(after), func(p *page) {
		p.field("approval", after.GetApprovalId())
		p.field("state", short(after.GetState()))
		p.field("missing", after.GetMissing())
		p.field("grant", after.GetGrantId())
	})
}
