// Package tui is `palyra tui`: the calls that wait for a person, live in a terminal,
// each with all that has to be seen before it is answered, and the answer. Nothing that
// came from a model reaches the terminal but as visible text, and no single key decides.
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
	a, said := besides(program)
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if _, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{}); err != nil {
		return err // before the screen is taken
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(a, g, func(do func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return do(ctx) }
	})
	p := tea.NewProgram(m, options(ctx, program)...)
	said.tell(func(text string) { p.Send(saidMsg{text}) })
	var following sync.WaitGroup
	following.Go(func() { follow(ctx, a, g, p.Send) })
	_, err = p.Run()
	said.tell(nil)
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

// aside is where messages go that would tear the screen apart: to stderr before and
// after, and to the last line of the screen in between.
type aside struct {
	mu   sync.Mutex
	to   interface{ Write([]byte) (int, error) }
	told func(string)
}

// besides is the program with its messages aside.
func besides(program *client.App) (*client.App, *aside) {
	said := &aside{to: program.Err}
	a, p := *program, *program.Printer
	p.Err = said
	a.Printer = &p
	return &a, said
}

func (s *aside) tell(told func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = told
}

// Write implements io.Writer.
func (s *aside) Write(text []byte) (int, error) {
	s.mu.Lock()
	told := s.told
	s.mu.Unlock()
	if told == nil {
		return s.to.Write(text)
	}
	told(printer.FirstLine(string(text)))
	return len(text), nil
}
