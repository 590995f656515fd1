// Command palyrad is the daemon: the gateway between a model and the machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"palyra/internal/core/reason"
	"palyra/internal/gateway"
)

func main() {
	// Package net/http tells the standard logger what hosts send out of turn.
	// That belongs in nobody's terminal.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := gateway.KeepInherited()
	if err == nil {
		err = command().ExecuteContext(ctx)
	}
	stop()
	if err != nil {
		if !silent(err) {
			explain(os.Stderr, err)
		}
		os.Exit(exitCode(err))
	}
}

// command is the command line of palyrad. The daemon alone forbids dumps of its memory: its
// socket takes an order of this host from another palyrad after a look at the namespaces of
// that process, which an ordinary user may not see of one that cannot be dumped.
func command() *cobra.Command {
	c := gateway.Command(os.Stdout, os.Stderr)
	c.PreRunE = func(*cobra.Command, []string) error { return forbidDumps() }
	return c
}

// silent reports whether a program has said all that there is to say.
func silent(err error) bool {
	var exit gateway.ExitError
	return errors.As(err, &exit) && exit.Err == nil
}

// explain prints what happened and the operator's next step.
func explain(w io.Writer, err error) {
	_, _ = fmt.Fprintf(w, "palyrad: %v\n", err)
	step := reason.OutOfFiles(err) // of errors without a reason, too
	var known *reason.Error
	if step == "" && errors.As(err, &known) {
		step = known.NextStep()
	}
	if step != "" {
		_, _ = fmt.Fprintf(w, "next: %s\n", step)
	}
}

func exitCode(err error) int {
	var exit gateway.ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	var known *reason.Error
	if errors.As(err, &known) {
		return reason.Lookup(known.Code).Exit
	}
	return reason.ExitFailure
}
