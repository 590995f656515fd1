// Package client connects commands to the gateway: flags and configuration, the credential bundle
// and its renewal, one client per service, paged lists, completion of ids, reconnecting streams,
// and the explanation of errors.
package client

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"palyra/internal/cli/printer"
	"palyra/internal/evidence/journal"
)

// App is one run of the program.
type App struct {
	*printer.Printer
	// Address, Credentials and Config are the flags with these names; "" if not set.
	Address, Credentials, Config string
	// Context is the flag that selects one of several gateways.
	Context string
	// Socket is the flag that selects the local operator's socket.
	Socket bool
	// Terminal is the session name of calls in this terminal; "" without one.
	Terminal string
	// Retry is the pause before a lost connection of a run is reopened.
	Retry time.Duration
	// Interrupt returns a context that ends at the next interrupt, for commands that continue after
	// the first one.
	Interrupt func(context.Context) (context.Context, context.CancelFunc)
	// VerifyStore verifies the journal and the blobs of a state directory.
	VerifyStore StoreVerifier
}

// StoreVerifier verifies the store at path (store/sqlite.Verify). The checkpoints must be
// signed for gateway by the keys in known, and the store must contain the checkpoints in seen.
type StoreVerifier func(ctx context.Context, path, gateway string, known note.Verifiers, seen ...journal.Checkpoint) (journal.Summary, error)

// NewApp returns an App with these streams.
func NewApp(s printer.Streams) *App {
	return &App{
		Printer: printer.New(s), Retry: firstRetry,
		Interrupt: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
}

// Connected returns a command function that first connects to the gateway.
func (a *App) Connected(do func(ctx context.Context, g *Gateway, given []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, given []string) error {
		g, err := a.Connect(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), g, given)
	}
}
