package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/core/reason"
)

// report prints an error with its next step and returns the exit code. If the command was
// interrupted and did not succeed, the code is ExitInterrupted.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return reason.ExitOK
	}
	code := a.failed(ctx, cmd, err)
	if ctx.Err() != nil && code != reason.ExitOK {
		return reason.ExitInterrupted
	}
	return code
}

func (a *app) failed(ctx context.Context, cmd *cobra.Command, err error) int {
	var exit command.Exit
	if errors.As(err, &exit) {
		return int(exit)
	}
	if ctx.Err() != nil && client.IsCancelled(err) {
		a.Say("interrupted")
		return reason.ExitFailure
	}
	e := client.Explain(cmd, err)
	if a.Getenv(client.TokenVariable) != "" && (e.Code == reason.Unauthenticated || e.Code == reason.PermissionDenied) {
		e = e.WithField("credential", "the token in "+client.TokenVariable+", which comes before the bundle of palyra; unset it to act with that")
	}
	a.PrintError(e)
	return reason.Lookup(e.Code).Exit
}
