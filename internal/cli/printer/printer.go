// Package printer is the terminal input and output of palyra: tables, pages, records, documents in
// JSON and YAML, errors, messages and prompts. It escapes all text that it prints. It does not
// access a gateway.
package printer

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Streams are the input and output of a command, with their properties.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// ReadHidden reads a line from the terminal at In without echo; nil reads it from In.
	ReadHidden func(context.Context) (string, error)
	// InTerminal, OutTerminal and ErrTerminal report which of them are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width is the width of the terminal in cells; 0 means unknown.
	Width int
	// Getenv reads the environment, and Environ lists it.
	Getenv  func(string) string
	Environ func() []string
}

// Printer writes the output of a command to its streams.
type Printer struct {
	Streams
	// Output is the flag --output; "" if not set.
	Output string
	// NoInput and NoColor are the flags of these names.
	NoInput, NoColor bool
	// Now is the clock.
	Now func() time.Time
}

// New returns a printer to streams. Concurrent messages on Err are not mixed.
func New(s Streams) *Printer {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	if s.Environ == nil {
		s.Environ = func() []string { return nil }
	}
	s.Err = &lockedWriter{to: s.Err}
	return &Printer{Streams: s, Now: time.Now}
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

// Say writes one message to stderr. The arguments may come from the gateway, so the whole line is
// escaped.
func (a *Printer) Say(format string, args ...any) {
	fmt.Fprintln(a.Err, VisibleText(fmt.Sprintf(format, args...)))
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
