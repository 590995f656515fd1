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
	// Package net/http logs unexpected data from hosts to the standard logger. It must not be
	// printed to the terminal.
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

// command returns the command line of palyrad. Only the daemon forbids dumps of its memory.
// Before the daemon accepts a request over its socket from another palyrad on this host, it
// inspects the namespaces of that process. An ordinary user cannot inspect an undumpable
// process.
func command() *cobra.Command {
	c := gateway.Command(os.Stdout, os.Stderr)
	c.PreRunE = func(*cobra.Command, []string) error { return forbidDumps() }
	return c
}

// silent reports whether the program has already printed the error.
func silent(err error) bool {
	var exit gateway.ExitError
	return errors.As(err, &exit) && exit.Err == nil
}

// explain prints the error and the operator's next step.
func explain(w io.Writer, err error) {
	_, _ = fmt.Fprintf(w, "palyrad: %v\n", err)
	step := reason.OutOfFiles(err) // also for errors without a reason
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
