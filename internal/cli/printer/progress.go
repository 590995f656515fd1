package printer

import (
	"fmt"
	"strings"
	"time"

	"palyra/internal/core/progress"
)

// progressInterval is the update interval of a progress line.
const progressInterval = 200 * time.Millisecond

// Watched reports whether stderr is a terminal in an interactive session with readable output: no
// script, no CI, and no machine format.
func (a *Printer) Watched() bool {
	f := a.Format()
	return a.ErrTerminal && a.Getenv("CI") == "" && (f == FormatTable || f == FormatWide)
}

// Progress shows the progress of an operation in one line of stderr that is overwritten:
// "verifying: 4096 of 20000 events". It starts after progress.Patience. end removes the line; it
// must be called before other output, and may be called twice. Without a terminal at stderr nothing
// is written, and m need not count.
func (a *Printer) Progress(m *progress.Meter, doing, things string) (end func()) {
	if !a.Watched() {
		return func() {}
	}
	l := progressLine{a: a}
	stop := m.Watch(progressInterval, func(n progress.Count) { l.show(progressText(doing, things, n)) })
	ended := false
	return func() {
		if !ended {
			ended = true
			stop()
			l.show("")
		}
	}
}

// progressText indicates that the operation continues after all items were counted: a journal has
// more to check than its events.
func progressText(doing, things string, n progress.Count) string {
	switch {
	case n.Total > 0 && n.Done >= n.Total:
		return fmt.Sprintf("%s: all %d %s, finishing", doing, n.Total, things)
	case n.Total > 0:
		return fmt.Sprintf("%s: %d of %d %s (%d %%)", doing, n.Done, n.Total, things, n.Done*100/n.Total)
	}
	return fmt.Sprintf("%s: %d %s", doing, n.Done, things)
}

// progressLine is the currently displayed line.
type progressLine struct {
	a    *Printer
	size int // in cells
}

// show overwrites the line with spaces instead of terminal sequences, which not all terminals
// support. The cursor stays at the start of the line, so that other messages start there.
func (l *progressLine) show(text string) {
	if l.a.Width > 0 {
		text = Clip(text, max(l.a.Width-1, 1)) // in the last cell the terminal would start a new line
	}
	if text == "" && l.size == 0 {
		return
	}
	rest := max(l.size-len([]rune(text)), 0)
	l.size = len([]rune(text))
	_, _ = fmt.Fprintf(l.a.Err, "\r%s%s\r", text, strings.Repeat(" ", rest))
}
