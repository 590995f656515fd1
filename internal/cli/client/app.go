// Package client is how a command reaches the gateway: the flags and the
// configuration that name it, the credential bundle and its renewal, one client
// per service, lists page by page, ids by their beginning, streams that are
// opened again, and what an error of the gateway or of the connection means.
package client

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/printer"
)

// App is one run of the program.
type App struct {
	*printer.Printer
	// Address, Credentials and Config are the flags of these names; "" was not
	// given.
	Address, Credentials, Config string
	// Context is the flag that names one of several gateways.
	Context string
	// Socket is the flag that asks for the local operator's socket.
	Socket bool
	// Terminal names the session of calls that are typed at this terminal; "" where
	// there is none.
	Terminal string
	// Retry is the pause before the lost connection of a run is opened again.
	Retry time.Duration
	// Interrupt returns a context that the next interrupt ends. A command that
	// goes on after the first one asks for it.
	Interrupt func(context.Context) (context.Context, context.CancelFunc)
}

// NewApp is one run of the program with these streams.
func NewApp(s printer.Streams) *App {
	return &App{
		Printer: printer.New(s), Retry: firstRetry,
		Interrupt: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
}

// Connected is a command that begins with a connection to the gateway.
func (a *App) Connected(do func(ctx context.Context, g *Gateway, given []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		g, err := a.Connect(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), g, given)
	}
}
