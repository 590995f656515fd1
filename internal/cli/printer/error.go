package printer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// PrintError writes an error with its next step.
func (a *Printer) PrintError(e *reason.Error) {
	style := a.ErrStyle()
	// The reason code is on the first line; further lines are findings and help.
	message, rest, more := strings.Cut(VisibleText(e.Message), "\n")
	fmt.Fprintf(a.Err, "%s %s [%s]\n", style.Red("error:"), message, VisibleLine(string(e.Code)))
	if more {
		fmt.Fprintln(a.Err, rest)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if e.Fields[name] == "" || name == "version" && a.Format() == FormatTable {
			continue // not helpful for users
		}
		fmt.Fprintf(a.Err, "  %s: %s\n", VisibleLine(name), VisibleLine(e.Fields[name]))
	}
	if next := e.NextStep(); next != "" {
		fmt.Fprintf(a.Err, "%s %s\n", style.Bold("next:"), VisibleText(next))
	}
}
