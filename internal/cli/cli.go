// Package cli is the command line of Palyra: what `palyra` does with its
// arguments. It talks to palyrad over the API and to nothing else; what can be
// verified without a daemon is verified here.
//
// The rules of its surface: data goes to stdout and messages to stderr; text
// that came from the gateway is made visible before it is printed; nobody is
// asked anything without a terminal; an error says what to do next and its
// reason code chooses the exit code.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
)

// app is one run of the program, with the command tree.
type app struct{ *client.App }

// Main runs one command with the standard streams of the process and returns
// its exit code (`palyra help exit-codes`). An interrupt ends the command in
// order; a second one kills the process.
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
	program.Terminal = client.TerminalSession()
	return Execute(ctx, program, args)
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, streams printer.Streams) int {
	return Execute(ctx, client.NewApp(streams), args)
}

// Execute is Run for a program whose clock and pauses are chosen.
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

// readHidden reads a line from the terminal without echo. An interrupt gives the
// terminal back as it was.
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
		return "", errors.Join(ctx.Err(), term.Restore(fd, was)) // the reader goes with the process
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
