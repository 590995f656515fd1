package client

import (
	"context"

	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/changetable"
)

// waiting marks the context of a command that may leave its change pending. The value is
// changetable.NoWait for a command that does not wait for a second approver.
type waiting struct{}

// Waits adds --wait to a command whose change may need a second approver. Without the flag, a
// pending change ends the command with its approval and exit code reason.ExitPending; the gateway
// applies it once it is approved.
func (a *App) Waits(c *cobra.Command) *cobra.Command {
	var wait bool
	c.Flags().BoolVar(&wait, "wait", false, "if a second user must approve, wait until the change is applied")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, given []string) error {
		mode := changetable.NoWait
		if wait {
			mode = ""
		}
		cmd.SetContext(context.WithValue(cmd.Context(), waiting{}, mode))
		err := run(cmd, given)
		if wait || err == nil || Explain(cmd, err).Code != reason.ChangePending {
			return err
		}
		return a.pending(Explain(cmd, err))
	}
	return c
}

// pending prints a pending change.
func (a *App) pending(e *reason.Error) error {
	id, expires := e.Fields["approval_id"], e.Fields["expires_at"]
	body := printer.Object{{"approval_id", id}, {"state", "pending"}, {"expires_at", expires}}
	err := a.PrintOne("PendingChange", printer.Record{Name: id, Body: body}, func(p *printer.Page) {
		p.Field("approval", id)
		p.Field("state", "pending: the change is not applied yet")
		p.Field("expires", expires)
	})
	if err != nil {
		return err
	}
	a.Say("%s", printer.VisibleLine(e.Message))
	if e.Remedy != "" {
		a.Say("next: %s", printer.VisibleLine(e.Remedy))
	}
	return command.Exit(reason.ExitPending)
}
