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
	a := &answerCommands{program}
	f := decideFlags{brief: true}
	c := a.answerCommand("approve", "Allow a pending call", &f)
	c.Long = "Approve a pending call: once, unless --allow specifies more.\n" +
		"Without an ID the only pending one is shown; if there are several, they are\n" +
		"listed by number and none is selected. In a terminal the call is shown before\n" +
		"you confirm, and only that call is approved; without a terminal, --digest\n" +
		"identifies the call that you reviewed."
	c.Example = "palyra approve\npalyra approve 01J... --for 30m --uses 3 --match subject"
	f.yesFlags(c)
	c.Flags().Lookup("allow").Usage = "once, session or timeboxed (default: once, or timeboxed with --for)"
	return c
}

// DenyCommand is `palyra deny`.
func DenyCommand(program *client.App) *cobra.Command {
	a := &answerCommands{program}
	f := decideFlags{brief: true, deny: true}
	c := a.answerCommand("deny", "Deny a pending call", &f)
	c.Long = "Deny a pending call. The reason is sent to the requester.\n" +
		"Without an ID the only pending one is shown; if there are several, they are\n" +
		"listed by number and none is selected."
	c.Example = "palyra deny --reason \"not on a Friday\"\npalyra deny 01J... --reason \"wrong branch\""
	return c
}

// answerCommand returns the command of an answer, whose name is the answer.
func (a *answerCommands) answerCommand(name, short string, f *decideFlags) *cobra.Command {
	c := &cobra.Command{
		Use: name + " [ID]", Short: short, Args: command.Args(0, 1), ValidArgsFunction: completeApprovals(a.App, true),
		RunE: func(cmd *cobra.Command, given []string) error { return a.answer(cmd.Context(), given, *f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.digest, "digest", "", "the digest of the call that you reviewed; required without a terminal")
	flags.StringVar(&f.reason, "reason", "", "the reason; required to deny")
	flags.BoolVar(&f.sure, "yes", false, "in a terminal: do not ask to confirm")
	f.presentFlag(c)
	return c
}

// answer finds the selected approval and decides it. In a terminal it asks for a missing reason of
// a denial.
func (a *answerCommands) answer(ctx context.Context, given []string, f decideFlags) error {
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
		return command.Usage("without a terminal, an approval ID and --digest are required").
			WithRemedy("Show them with `palyra approvals list`, then add the ID and --digest.")
	}
	if f.sure && !f.deny && f.digest == "" {
		// The pending approval may have changed since it was reviewed: its requester can cancel it
		// and request something else.
		return command.Usage("--yes requires an approval ID: a number or the only pending approval may have changed since you reviewed it").
			WithRemedy("Specify the approval by its ID, or omit --yes to review and confirm the call.")
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
	id, err := a.selectApproval(waiting, given)
	if err != nil || id == "" {
		return err
	}
	return a.decide(ctx, id, f)
}

// selectApproval returns the only pending approval, or the one with the given number; "" after
// reporting that none is pending.
func (a *answerCommands) selectApproval(waiting []*palyrav1.Approval, given []string) (string, error) {
	switch {
	case len(waiting) == 0:
		a.Say("no approval is pending")
		return "", nil
	case len(given) == 1:
		n, _ := strconv.Atoi(given[0])
		if n < 1 || n > len(waiting) {
			return "", command.Usage("no pending approval has the number %d; the last number is %d", n, len(waiting))
		}
		return waiting[n-1].GetApprovalId(), nil
	case len(waiting) == 1:
		return waiting[0].GetApprovalId(), nil
	}
	for i, v := range waiting {
		a.Say("%s", printer.Clip(fmt.Sprintf("%3d  %s  %s", i+1, v.GetApprovalId(), printer.VisibleLine(ask.ApprovalSummary(v))), printer.PageWidth))
	}
	return "", command.Usage("%s are pending; specify one", text.Plural(len(waiting), "approval")).
		WithRemedy("Run `palyra approve NUMBER`, or use its ID; it is shown before you confirm.")
}

// isNumber distinguishes a list number from an id, which has 26 characters.
func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil && len(text) < 6
}
