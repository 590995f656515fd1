package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
)

func TestArgumentsFit(t *testing.T) {
	t.Parallel()
	// A call's line fits the terminal for any arguments, and is computed quickly.
	long := must.Get(json.Marshal(map[string]string{"content": strings.Repeat("x", 1<<20)}))(t)
	calls := newRunCalls(&app{client.NewApp(printer.Streams{ErrTerminal: true, Width: 60, Getenv: func(string) string { return "1" }})})
	c := calls.add("fs.write", long)
	if line := calls.line(c, linePart{nil, c.tool}, linePart{nil, calls.arguments(c)}).String(); lipgloss.Width(line) != 60 || !strings.HasSuffix(line, "…") {
		t.Errorf("%d cells: %q", lipgloss.Width(line), line)
	}
}
