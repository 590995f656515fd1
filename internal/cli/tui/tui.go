// Package tui is `palyra tui`: a live list of the pending calls in a terminal. It displays
// everything that a person must review about a call, and takes the answer. Text from a model is
// always escaped, and an answer always requires more than one key.
//
// It uses the loop of bubbletea and no ready-made widgets. A list of bubbles moves the entry
// under the cursor when another arrives. Its viewport wraps text so that a line of a model can
// resemble a line of the program.
package tui

import (
	"context"
	"errors"
	"os"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// Command is `palyra tui`.
func Command(program *client.App) *cobra.Command {
	return &cobra.Command{
		Use: "tui", Short: "The calls that wait for a human, live in this terminal", Args: command.Args(0, 0),
		Long: "The calls that wait for a human, live in this terminal: a list, each call in\n" +
			"full, and your answer. ? shows the keys. It needs a terminal of at least 80\n" +
			"columns and 24 lines; elsewhere use `palyra approvals list`.",
		Example: "palyra tui",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), program) },
	}
}

func run(ctx context.Context, program *client.App) error {
	if !program.InTerminal || !program.OutTerminal || program.NoInput || program.Getenv("TERM") == "dumb" {
		return command.Usage("palyra tui needs a terminal").
			WithRemedy("Use `palyra approvals list` and `palyra approvals decide`, which need none.")
	}
	a, messages := redirectMessages(program)
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if _, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{}); err != nil {
		return err // before the screen is used
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(a, g, func(do func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return do(ctx) }
	})
	p := tea.NewProgram(m, options(ctx, program)...)
	messages.redirect(func(text string) { p.Send(saidMsg{text}) })
	var following sync.WaitGroup
	following.Go(func() { follow(ctx, a, g, p.Send) })
	_, err = p.Run()
	messages.redirect(nil)
	cancel()
	following.Wait()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic) {
		return nil // an interrupt is the normal end
	}
	return err
}

func options(ctx context.Context, program *client.App) []tea.ProgramOption {
	list := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler()}
	if in, ok := program.In.(*os.File); ok {
		list = append(list, tea.WithInput(in))
	}
	if out, ok := program.Out.(*os.File); ok {
		list = append(list, tea.WithOutput(out))
	}
	return list
}

// messageWriter redirects messages that would corrupt the screen. They go to the last line of
// the screen while the screen is in use, and to stderr before and after.
type messageWriter struct {
	mu   sync.Mutex
	to   interface{ Write([]byte) (int, error) }
	show func(string)
}

// redirectMessages returns the program with redirected messages.
func redirectMessages(program *client.App) (*client.App, *messageWriter) {
	messages := &messageWriter{to: program.Err}
	return program.Redirected(messages), messages
}

func (s *messageWriter) redirect(show func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show = show
}

// Write implements io.Writer.
func (s *messageWriter) Write(text []byte) (int, error) {
	s.mu.Lock()
	show := s.show
	s.mu.Unlock()
	if show == nil {
		return s.to.Write(text)
	}
	show(printer.FirstLine(string(text)))
	return len(text), nil
}
