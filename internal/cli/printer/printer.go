// Package printer is what a person or a script sees of palyra, and what a
// person types: tables, pages, records, documents in JSON and YAML, errors,
// messages and questions. What it prints it makes visible first. It knows no
// gateway.
package printer

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Streams are what a command reads and writes, and what is known of them.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// ReadHidden reads a line from the terminal at In without showing it; nil reads it
	// from In as it is.
	ReadHidden func(context.Context) (string, error)
	// InTerminal, OutTerminal and ErrTerminal say which of them a person is at.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width is that of the terminal in cells; 0 means unknown.
	Width int
	// Getenv reads the environment, and Environ lists it.
	Getenv  func(string) string
	Environ func() []string
}

// Printer writes what a command has to say to its streams, and asks the person
// at them.
type Printer struct {
	Streams
	// Output is the flag --output; "" was not given.
	Output string
	// NoInput and NoColor are the flags of these names.
	NoInput, NoColor bool
	// Now is the clock.
	Now func() time.Time
	// Arm is how long an answer is refused after its question appeared, so
	// that what was typed before cannot decide.
	Arm   time.Duration
	typed *lines
}

const armDelay = 400 * time.Millisecond

// New prints to streams. Messages on Err are whole, whoever writes at
// the same time.
func New(s Streams) *Printer {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	if s.Environ == nil {
		s.Environ = func() []string { return nil }
	}
	s.Err = &lockedWriter{to: s.Err}
	return &Printer{Streams: s, Now: time.Now, Arm: armDelay, typed: &lines{from: s.In}}
}

// Interactive reports whether a person can be asked: both ends of the
// conversation are a terminal, and nobody switched questions off.
func (a *Printer) Interactive() bool {
	return a.InTerminal && a.ErrTerminal && !a.NoInput && a.Getenv("CI") == ""
}

// Colour reports whether styles may be written to a stream.
func (a *Printer) Colour(terminal bool) bool {
	e := a.Getenv
	return terminal && !a.NoColor && e("NO_COLOR") == "" && e("TERM") != "dumb" && e("CI") == ""
}

// OutStyle is the palette of stdout.
func (a *Printer) OutStyle() Palette { return paletteFor(a.Colour(a.OutTerminal)) }

// ErrStyle is the palette of stderr.
func (a *Printer) ErrStyle() Palette { return paletteFor(a.Colour(a.ErrTerminal)) }

// Say writes one message to stderr. The arguments may come from the gateway,
// so the whole line is made visible.
func (a *Printer) Say(format string, args ...any) {
	fmt.Fprintln(a.Err, VisibleText(fmt.Sprintf(format, args...)))
}

// wide is the number of cells a table may fill.
func (a *Printer) wide() int {
	if a.OutTerminal && a.Width > 0 {
		return a.Width
	}
	return 0
}

// lockedWriter lets the progress message and the command share stderr.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// NextLine is the next line that a person types, without its end. When ctx ends
// first, reading stops without taking anything from the terminal.
func (a *Printer) NextLine(ctx context.Context) (string, error) { return a.typed.next(ctx) }
