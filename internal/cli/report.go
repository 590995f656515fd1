package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/reason"
)

// report prints an error with its next step and returns the exit code.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return reason.ExitOK
	}
	var exit command.Exit
	if errors.As(err, &exit) {
		return int(exit)
	}
	if ctx.Err() != nil && client.IsCancelled(err) {
		a.Say("interrupted")
		return reason.ExitFailure
	}
	e := client.Explain(cmd, err)
	a.PrintError(e)
	return reason.Lookup(e.Code).Exit
}
