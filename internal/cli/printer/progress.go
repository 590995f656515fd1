package printer

import (
	"fmt"
	"strings"
	"time"

	"palyra/internal/core/progress"
)

// progressInterval is how long one state of a progress line stands.
const progressInterval = 200 * time.Millisecond

// Watched reports whether a person watches stderr and reads what the command
// prints: no script, no CI, and no format for machines.
func (a *Printer) Watched() bool {
	f := a.Format()
	return a.ErrTerminal && a.Getenv("CI") == "" && (f == FormatTable || f == FormatWide)
}

// Progress shows how far a work is in one line of stderr that is written over
// again and again: "verifying: 4096 of 20000 events". It begins when the work has
// lasted for progress.Patience. end takes the line away; it has to be called before
// anything else is printed, and may be called twice. Without a person at stderr
// nothing is written, and m need not count.
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

// progressText says that a work is not over when all is counted: a journal's events
// are not all that is looked at.
func progressText(doing, things string, n progress.Count) string {
	switch {
	case n.Total > 0 && n.Done >= n.Total:
		return fmt.Sprintf("%s: all %d %s, finishing", doing, n.Total, things)
	case n.Total > 0:
		return fmt.Sprintf("%s: %d of %d %s (%d %%)", doing, n.Done, n.Total, things, n.Done*100/n.Total)
	}
	return fmt.Sprintf("%s: %d %s", doing, n.Done, things)
}

// progressLine is what stands in the line now.
type progressLine struct {
	a    *Printer
	size int // in cells
}

// show writes over what stands there, with blanks and without sequences of the
// terminal, which not all understand. The cursor stays at the line's beginning, so
// that a message of somebody else begins there.
func (l *progressLine) show(text string) {
	if l.a.Width > 0 {
		text = Clip(text, max(l.a.Width-1, 1)) // in the last cell the terminal would begin a new line
	}
	if text == "" && l.size == 0 {
		return
	}
	rest := max(l.size-len([]rune(text)), 0)
	l.size = len([]rune(text))
	_, _ = fmt.Fprintf(l.a.Err, "\r%s%s\r", text, strings.Repeat(" ", rest))
}
