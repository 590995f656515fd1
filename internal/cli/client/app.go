// Package client connects commands to the gateway: flags and configuration, the credential bundle
// and its renewal, one client per service, paged lists, completion of ids, reconnecting streams,
// and the explanation of errors.
package client

import (
	"context"
	"io"
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
	*printer.Prompter
	Settings
	Keys     Keys
	Dialer   Dialer
	renewals renewer
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
	a := &App{
		Retry: firstRetry,
		Interrupt: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
	p := printer.New(s)
	a.use(p, printer.NewPrompter(p))
	return a
}

// Redirected returns a copy of the App that writes its messages to w.
func (a *App) Redirected(w io.Writer) *App {
	out, p := *a, *a.Printer
	p.Err = w
	out.use(&p, a.Prompter.With(&p))
	return &out
}

func (a *App) use(out *printer.Printer, prompts *printer.Prompter) {
	a.Printer, a.Prompter, a.Settings.out = out, prompts, out
	a.Keys, a.Dialer, a.renewals = Keys{out, prompts}, Dialer{out}, renewer{Dialer{out}}
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
