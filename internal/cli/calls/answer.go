package calls

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// ApproveCommand is `palyra approve`.
func ApproveCommand(program *client.App) *cobra.Command {
	a := &approvalCommands{program}
	f := decideFlags{brief: true}
	c := a.answerCommand("approve", "Allow a call that waits", &f)
	c.Long = "Say yes to a call that waits for a human: once, unless --allow says more.\n" +
		"Without an ID the one that waits is shown; when several do, they are listed\n" +
		"by number and none is chosen. In a terminal the call is shown before the yes\n" +
		"counts, and it counts for that call only; without one, --digest says which\n" +
		"call you saw."
	c.Example = "palyra approve\npalyra approve 01J... --for 30m --uses 3 --match subject"
	f.yesFlags(c)
	c.Flags().Lookup("allow").Usage = "once, session or timeboxed (default: once, or timeboxed with --for)"
	return c
}

// DenyCommand is `palyra deny`.
func DenyCommand(program *client.App) *cobra.Command {
	a := &approvalCommands{program}
	f := decideFlags{brief: true, deny: true}
	c := a.answerCommand("deny", "Refuse a call that waits", &f)
	c.Long = "Say no to a call that waits for a human. The reason reaches whoever called.\n" +
		"Without an ID the one that waits is shown; when several do, they are listed\n" +
		"by number and none is chosen."
	c.Example = "palyra deny --reason \"not on a Friday\"\npalyra deny 01J... --reason \"wrong branch\""
	return c
}

// answerCommand is a command whose name is the answer.
func (a *approvalCommands) answerCommand(name, short string, f *decideFlags) *cobra.Command {
	c := &cobra.Command{
		Use: name + " [ID]", Short: short, Args: command.Args(0, 1), ValidArgsFunction: a.completeApprovals(true),
		RunE: func(cmd *cobra.Command, given []string) error { return a.answer(cmd.Context(), given, *f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.digest, "digest", "", "the call digest you saw; required without a terminal")
	flags.StringVar(&f.reason, "reason", "", "why; a no needs one")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	f.presentFlag(c)
	return c
}

// answer finds what is meant, then decides it. A no without a reason is asked for
// one in a terminal.
func (a *approvalCommands) answer(ctx context.Context, given []string, f decideFlags) error {
	if f.deny && f.reason == "" && a.Interactive() {
		f.askReason = true
	}
	if !f.deny && f.allow == "" {
		f.allow = "once"
		if f.ttl != "" {
			f.allow = "timeboxed"
		}
	}
	if len(given) == 1 && !isNumber(given[0]) {
		return a.decide(ctx, given[0], f)
	}
	if !a.Interactive() {
		return command.Usage("without a terminal, name the approval and the call that you saw").
			WithRemedy("See them with `palyra approvals list`, then add the ID and --digest.")
	}
	if f.sure && !f.deny && f.digest == "" {
		// What waits now need not be what was seen: who asks can take it back and ask
		// for something else.
		return command.Usage("--yes is for a call that you saw, and neither a number nor what waits at the moment says which").
			WithRemedy("Name the approval by its ID, or leave --yes away: the call is shown, and you confirm it.")
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	waiting, _, err := client.Collect(0, approvalPages(ctx, g, &palyrav1.ListApprovalsRequest{
		States: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING},
	}))
	if err != nil {
		return err
	}
	id, err := a.meant(waiting, given)
	if err != nil || id == "" {
		return err
	}
	return a.decide(ctx, id, f)
}

// meant is the one approval that waits, or the one with the number that was
// given; "" after it was said that none waits.
func (a *approvalCommands) meant(waiting []*palyrav1.Approval, given []string) (string, error) {
	switch {
	case len(waiting) == 0:
		a.Say("no approval waits")
		return "", nil
	case len(given) == 1:
		n, _ := strconv.Atoi(given[0])
		if n < 1 || n > len(waiting) {
			return "", command.Usage("no waiting approval has the number %d; they go up to %d", n, len(waiting))
		}
		return waiting[n-1].GetApprovalId(), nil
	case len(waiting) == 1:
		return waiting[0].GetApprovalId(), nil
	}
	for i, v := range waiting {
		a.Say("%s", printer.Clip(fmt.Sprintf("%3d  %s  %s", i+1, v.GetApprovalId(), printer.VisibleLine(ask.ApprovalSummary(v))), printer.PageWidth))
	}
	return "", command.Usage("%s wait, and none is chosen", text.Plural(len(waiting), "approval")).
		WithRemedy("Name one: `palyra approve NUMBER` or its ID; it is shown before your answer counts.")
}

// isNumber tells a place in the list from an id, which has 26 characters.
func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil && len(text) < 6
}
