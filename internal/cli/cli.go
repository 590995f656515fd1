// Package cli is the command line of Palyra, the program `palyra`. It accesses palyrad only through
// the API; what can be verified offline is verified here.
//
// Its output follows these rules. Data is written to stdout and messages to stderr. Text from
// the gateway is escaped before it is printed. Without a terminal there are no prompts. An
// error contains the next step, and its reason code selects the exit code.
//
// A family of commands does not import another one, so that one can be changed without reading
// the others. Parts that two families share are packages of their own (calls/ask). printer has
// no access to a gateway, and client does not depend on commands.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/store/sqlite"
)

// app provides the command tree.
type app struct{ *client.App }

// Main runs one command with the standard streams of the process and returns its exit code (`palyra
// help exit-codes`). An interrupt ends the command gracefully; a second one kills the process.
func Main(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	program := client.NewApp(printer.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		ReadHidden:  readHidden,
		Width:       width(os.Stdout, os.Stderr),
		Getenv:      os.Getenv,
		Environ:     os.Environ,
	})
	program.Terminal, program.VerifyStore = client.TerminalSession(), sqlite.Verify
	return Execute(ctx, program, args)
}

// Command returns the tree of commands for its documentation; its commands are not connected to
// streams.
func Command() *cobra.Command { return (&app{client.NewApp(printer.Streams{})}).root() }

// Execute runs one command and returns its exit code.
func Execute(ctx context.Context, program *client.App, args []string) int {
	a := &app{program}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	ran, err := root.ExecuteContextC(ctx)
	return a.report(ctx, ran, err)
}

// readHidden reads a line from the terminal without echo. An interrupt restores the terminal.
func readHidden(ctx context.Context) (string, error) {
	fd := int(os.Stdin.Fd())
	was, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, was)) // the reader ends with the process
	}
}

func width(files ...*os.File) int {
	for _, f := range files {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 0
}
