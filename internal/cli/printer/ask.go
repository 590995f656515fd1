package printer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muesli/cancelreader"

	"palyra/internal/cli/command"
)

// Prompter reads the answers of the user at the terminal, and input that is not a terminal.
type Prompter struct {
	// Arm is how long an answer is refused after its question appeared, so that earlier input
	// cannot answer it.
	Arm   time.Duration
	out   *Printer
	typed *lines
}

const armDelay = 400 * time.Millisecond

// NewPrompter returns a prompter that writes its questions with out.
func NewPrompter(out *Printer) *Prompter {
	return &Prompter{Arm: armDelay, out: out, typed: &lines{from: out.In}}
}

// With returns a prompter for the same input that writes its questions with out.
func (p *Prompter) With(out *Printer) *Prompter {
	return &Prompter{Arm: p.Arm, out: out, typed: p.typed}
}

// Interactive reports whether prompts are possible: input and error output are terminals, and
// prompts are not disabled.
func (p *Prompter) Interactive() bool {
	return p.out.InTerminal && p.out.ErrTerminal && !p.out.NoInput && p.out.Getenv("CI") == ""
}

// NextLine returns the next typed line, without its end. If ctx ends first, reading stops without
// consuming input of the terminal.
func (p *Prompter) NextLine(ctx context.Context) (string, error) { return p.typed.next(ctx) }

// lines reads the user's input line by line.
type lines struct {
	from io.Reader
	rest []byte
}

// next returns the next line without its end. If ctx ends first, reading stops without consuming
// input of the terminal.
func (l *lines) next(ctx context.Context) (string, error) {
	for {
		if line, rest, ok := bytes.Cut(l.rest, []byte("\n")); ok {
			l.rest = rest
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		chunk, err := l.read(ctx)
		l.rest = append(l.rest, chunk...)
		if err != nil {
			return "", err
		}
	}
}

func (l *lines) read(ctx context.Context) ([]byte, error) {
	reader, err := cancelreader.NewReader(l.from)
	if err != nil {
		// A regular file, which epoll does not support and which never blocks.
		reader, err = cancelreader.NewReader(struct{ io.Reader }{l.from})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	type result struct {
		chunk []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		buf := make([]byte, 4096)
		n, err := reader.Read(buf)
		done <- result{buf[:n], err}
	}()
	select {
	case r := <-done:
		return r.chunk, errors.Join(r.err, reader.Close())
	case <-ctx.Done():
	}
	if reader.Cancel() {
		<-done
		return nil, errors.Join(ctx.Err(), reader.Close())
	}
	return nil, ctx.Err() // a reader that cannot be interrupted keeps its goroutine until the process ends
}

// Ask writes a question to stderr and returns the answer. Lines that were typed before the question
// could be read are dropped.
func (p *Prompter) Ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.out.Err, question)
	shown := time.Now()
	for {
		line, err := p.NextLine(ctx)
		if err != nil {
			return "", err
		}
		if time.Since(shown) >= p.Arm {
			return strings.TrimSpace(line), nil
		}
		p.out.Say("(ignored: typed before the question could be read)")
		fmt.Fprint(p.out.Err, question)
	}
}

// Piped returns the next line of an input that is not a terminal. The last one may lack its end.
func (p *Prompter) Piped(ctx context.Context) (string, error) {
	line, err := p.NextLine(ctx)
	if errors.Is(err, io.EOF) && len(p.typed.rest) > 0 {
		line, p.typed.rest = string(p.typed.rest), nil
		return line, nil
	}
	return line, err
}

// AskHidden writes a question to stderr and returns the answer, which the terminal does not echo.
// An input that is not a terminal is read as one line.
func (p *Prompter) AskHidden(ctx context.Context, question string) (string, error) {
	if !p.out.InTerminal || p.out.ReadHidden == nil {
		return p.Piped(ctx)
	}
	fmt.Fprint(p.out.Err, question)
	defer fmt.Fprintln(p.out.Err)
	return p.out.ReadHidden(ctx)
}

// Confirm asks before an action that cannot be undone. Without a terminal, --yes is required.
func (p *Prompter) Confirm(ctx context.Context, sure bool, format string, args ...any) error {
	if !sure && !p.Interactive() {
		return command.Usage("this cannot be undone").WithRemedy("Repeat the command with --yes.")
	}
	return p.Agree(ctx, sure, VisibleLine(fmt.Sprintf(format, args...))+" This cannot be undone.")
}

// Agree asks a question and ends the command unless the answer is yes. sure is true if --yes
// answered it.
func (p *Prompter) Agree(ctx context.Context, sure bool, question string) error {
	if sure {
		return nil
	}
	answer, err := p.Ask(ctx, question+" [y/N] ")
	if err != nil {
		return err
	}
	if answer != "y" && answer != "yes" {
		p.out.Say("nothing was changed")
		return command.Exit(1)
	}
	return nil
}
