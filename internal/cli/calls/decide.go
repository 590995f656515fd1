package calls

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// answerCommands provides the commands that answer, edit or sign an approval.
type answerCommands struct{ *client.App }

// decideFlags are the flags of an answer.
type decideFlags struct {
	allow, match, digest, reason, ttl string
	uses                              int64
	deny, sure, present, noBrowser    bool
	// brief shows the approval in brief, and askReason asks for a missing reason of a denial, for
	// the commands approve and deny.
	brief, askReason bool
}

func (a *answerCommands) approvalsDecide() *cobra.Command {
	var f decideFlags
	c := &cobra.Command{
		Use:   "decide ID (--allow SCOPE | --deny --reason TEXT)",
		Short: "Answer an approval",
		Long: "Answer an approval with your vote. In a terminal the call is shown in full\n" +
			"first; without a terminal, --digest identifies the call that you reviewed, and\n" +
			"the answer applies only to that call.",
		Example: "palyra approvals decide 01J... --allow once --digest sha256:...\n" +
			"palyra approvals decide 01J... --allow timeboxed --for 30m --match subject --digest sha256:...\n" +
			"palyra approvals decide 01J... --deny --reason \"not on a Friday\" --digest sha256:...",
		Args:              command.Args(1, 1),
		ValidArgsFunction: completeApprovals(a.App, true),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.decide(cmd.Context(), given[0], f)
		},
	}
	f.yesFlags(c)
	flags := c.Flags()
	flags.StringVar(&f.digest, "digest", "", "the digest of the call that you reviewed; required without a terminal")
	flags.BoolVar(&f.deny, "deny", false, "deny")
	flags.StringVar(&f.reason, "reason", "", "the reason; required with --deny")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	f.presentFlag(c)
	return c
}

// presentFlag adds the flags for presence to a command.
func (f *decideFlags) presentFlag(c *cobra.Command) {
	c.Flags().BoolVar(&f.present, "present", false, "prove your presence: by the key of palyra key presence, or else by your passkey in the console, which opens in a browser")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "with --present: print the link to the approval in the console instead")
}

// yesFlags adds the flags of an approval.
func (f *decideFlags) yesFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.allow, "allow", "", "allow: once, session or timeboxed")
	flags.StringVar(&f.ttl, "for", "", "duration of a timeboxed approval: 1m to 7d")
	flags.Int64Var(&f.uses, "uses", 0, "how many more calls a session or timeboxed approval covers (default: no limit)")
	flags.StringVar(&f.match, "match", "", "the calls that a session or timeboxed approval covers: exact (default), subject or tool")
	complete := func(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = c.RegisterFlagCompletionFunc("allow", complete("once", "session", "timeboxed"))
	_ = c.RegisterFlagCompletionFunc("match", complete("exact", "subject", "tool"))
	_ = c.RegisterFlagCompletionFunc("for", complete("10m", "30m", "2h", "1d"))
}

// vote converts the flags; given is false if they contain no answer.
func (f decideFlags) vote() (v ask.Vote, given bool, err error) {
	switch {
	case f.noBrowser && !f.present:
		return ask.Vote{}, false, command.Usage("--no-browser requires --present")
	case f.deny && f.allow != "":
		return ask.Vote{}, false, command.Usage("--allow and --deny exclude each other")
	case f.deny && (f.ttl != "" || f.match != "" || f.uses != 0):
		return ask.Vote{}, false, command.Usage("--for, --match and --uses require --allow")
	case f.uses < 0:
		return ask.Vote{}, false, command.Usage("--uses %d: want 1 or more", f.uses)
	case f.askReason:
		return ask.Vote{}, true, nil
	case f.deny:
		v = ask.Vote{Reason: f.reason}
		return v, true, v.Check()
	case f.allow == "":
		return ask.Vote{}, false, nil
	}
	v = ask.Vote{Allow: true, Reason: f.reason, Uses: f.uses}
	if v.Scope, err = printer.ParseEnum[palyrav1.ApprovalScope]("allow", f.allow); err != nil {
		return ask.Vote{}, false, err
	}
	if f.match != "" {
		if v.Match, err = printer.ParseEnum[palyrav1.GrantMatch]("match", f.match); err != nil {
			return ask.Vote{}, false, err
		}
	}
	if f.ttl != "" {
		if v.TTL, err = command.ParseSpan(f.ttl); err != nil {
			return ask.Vote{}, false, err
		}
	}
	return v, true, v.Check()
}

func (a *answerCommands) decide(ctx context.Context, id string, f decideFlags) error {
	v, given, err := f.vote()
	if err != nil {
		return err
	}
	if !given && !a.Interactive() {
		return command.Usage("an answer is required").WithRemedy("Add --allow once|session|timeboxed, or --deny --reason TEXT.")
	}
	if f.digest == "" && !a.Interactive() {
		return command.Usage("--digest is required without a terminal: it identifies the call that you reviewed").
			WithRemedy("Show the call and its digest with `palyra approvals show %s`.", id)
	}
	if err := command.CheckDigest(f.digest); err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if id, err = findApproval(ctx, g, id); err != nil {
		return err
	}
	digest := f.digest
	switch {
	case digest == "" || !given:
		if v, digest, err = a.decideSeen(ctx, g, id, v, given, f); err != nil {
			return err
		}
	case v.Allow && v.Scope != palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE:
		reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
		if err != nil {
			return err
		}
		if err := a.sayCovers(v, reply.GetApproval()); err != nil {
			return err
		}
	}
	if v.Leave {
		a.Say("approval %s stays pending", id)
		return nil
	}
	return a.cast(ctx, g, v.Request(id, digest), f)
}

// sayCovers prints the coverage of a standing approval before it is given.
func (a *answerCommands) sayCovers(v ask.Vote, about *palyrav1.Approval) error {
	if err := v.CheckOffered(about); err != nil || !v.Allow {
		return err
	}
	if covers := v.Covers(about); covers != "" {
		for _, line := range printer.Wrap("this approval covers "+printer.VisibleLine(covers), printer.PageWidth) {
			a.Say("%s", line)
		}
	}
	return nil
}

// decideSeen shows the approval in full and returns the answer with the digest of the displayed
// call.
func (a *answerCommands) decideSeen(ctx context.Context, g *client.Gateway, id string, v ask.Vote, given bool, f decideFlags) (ask.Vote, string, error) {
	reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil {
		return ask.Vote{}, "", err
	}
	shown := reply.GetApproval()
	if shown.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		return ask.Vote{}, "", reason.Errorf(reason.ApprovalConflict, "approval %s is already %s", id, printer.Enum(shown.GetState()))
	}
	if f.digest != "" && f.digest != shown.GetCallDigest() {
		return ask.Vote{}, "", reason.Errorf(reason.DigestMismatch, "the pending call does not match --digest").
			WithField("waiting", shown.GetCallDigest()).WithField("given", f.digest)
	}
	if f.brief {
		_, _ = a.Err.Write([]byte(ask.Brief(a.App, shown) + ask.SummaryLines(shown)))
	} else {
		ask.Show(a.App, shown)
	}
	if f.askReason {
		if v.Reason, err = a.Ask(ctx, "reason> "); err != nil {
			return v, "", err
		}
		if err := v.Check(); err != nil {
			return v, "", err
		}
	}
	if !given {
		v, err = ask.ReadVote(ctx, a.App, shown)
		return v, shown.GetCallDigest(), err
	}
	if err := a.sayCovers(v, shown); err != nil {
		return v, "", err
	}
	return v, shown.GetCallDigest(), a.confirmVote(ctx, shown, v, f.sure)
}

// confirmVote asks to confirm the vote in the flags after the call was shown.
func (a *answerCommands) confirmVote(ctx context.Context, shown *palyrav1.Approval, v ask.Vote, sure bool) error {
	if sure {
		return nil
	}
	word := "deny"
	if v.Allow {
		word = "allow"
	}
	asks := "type " + word + " to confirm, ? to show everything> "
	answer, err := a.Ask(ctx, asks)
	for ; err == nil && answer == "?"; answer, err = a.Ask(ctx, asks) {
		ask.Show(a.App, shown)
	}
	if err != nil {
		return err
	}
	if answer != word {
		a.Say("not confirmed; the approval stays pending")
		return command.Exit(1)
	}
	return nil
}

// cast sends the vote and prints the resulting approval. If presence is required and this device
// has no key for it, a member with a passkey votes in the console.
func (a *answerCommands) cast(ctx context.Context, g *client.Gateway, vote *palyrav1.DecideApprovalRequest, f decideFlags) error {
	if f.present && (f.noBrowser || !ask.HasPresence(a.App) && hasPasskey(ctx, g)) {
		return a.castInConsole(ctx, g, vote, f.noBrowser)
	}
	if f.present {
		if err := ask.Prove(ctx, a.App, g, vote); err != nil {
			return err
		}
	}
	reply, err := g.Approvals.DecideApproval(ctx, vote)
	if err != nil {
		return err
	}
	ask.SayPresence(a.App, reply.GetApproval(), vote)
	return a.printAnswered(reply.GetApproval())
}

// printAnswered prints the current state of an approval.
func (a *answerCommands) printAnswered(after *palyrav1.Approval) error {
	return a.PrintOne("Approval", approvalRecord(a.App, after), func(p *printer.Page) { answeredPage(p, after) })
}

func answeredPage(p *printer.Page, after *palyrav1.Approval) {
	p.Field("approval", after.GetApprovalId())
	p.Field("state", printer.Enum(after.GetState()))
	p.Field("missing", after.GetMissing())
	p.Field("grant", after.GetGrantId())
}
