package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Streams are what a command reads and writes, and what is known of them.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// InTerminal, OutTerminal and ErrTerminal say which of them a person is at.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width is that of the terminal in cells; 0 means unknown.
	Width int
	// Getenv reads the environment.
	Getenv func(string) string
}

// app is one run of the program.
type app struct {
	in      io.Reader
	out     io.Writer
	err     io.Writer
	streams Streams
	flags   globalFlags
	now     func() time.Time
	typed   *lines
	// arm is how long an answer is refused after its question appeared, so
	// that what was typed before cannot decide.
	arm time.Duration
	// retry is the pause before the lost connection of a run is opened again.
	retry time.Duration
	// interrupt returns a context that the next interrupt ends. A command that
	// goes on after the first one asks for it.
	interrupt func(context.Context) (context.Context, context.CancelFunc)
}

// globalFlags are the flags that every command takes.
type globalFlags struct {
	address     string
	credentials string
	config      string
	output      string
	noInput     bool
	noColor     bool
}

const armDelay = 400 * time.Millisecond

func newApp(s Streams) *app {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	return &app{
		in: s.In, out: s.Out, err: &lockedWriter{to: s.Err},
		streams: s, now: time.Now, typed: &lines{from: s.In}, arm: armDelay, retry: firstRetry,
		interrupt: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
}

// interactive reports whether a person can be asked: both ends of the
// conversation are a terminal, and nobody switched questions off.
func (a *app) interactive() bool {
	return a.streams.InTerminal && a.streams.ErrTerminal && !a.flags.noInput && a.streams.Getenv("CI") == ""
}

// colour reports whether styles may be written to a stream.
func (a *app) colour(terminal bool) bool {
	e := a.streams.Getenv
	return terminal && !a.flags.noColor && e("NO_COLOR") == "" && e("TERM") != "dumb" && e("CI") == ""
}

func (a *app) outStyle() palette { return paletteFor(a.colour(a.streams.OutTerminal)) }
func (a *app) errStyle() palette { return paletteFor(a.colour(a.streams.ErrTerminal)) }

// say writes one message to stderr. The arguments may come from the gateway,
// so the whole line is made visible.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.err, visibleText(fmt.Sprintf(format, args...)))
}

// wide is the number of cells a table may fill.
func (a *app) wide() int {
	if a.streams.OutTerminal && a.streams.Width > 0 {
		return a.streams.Width
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

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(one, "y"))
	}
	return fmt.Sprintf("%d %ss", n, one)
}
