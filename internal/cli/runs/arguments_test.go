package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/must"
)

func TestArguments(t *testing.T) {
	for input, want := range map[string]string{
		`{"path":"a/b.txt","n":3}`:           `n=3 path=a/b.txt`,
		`{"text":"two words","line":"a\nb"}`: `line="a\nb" text="two words"`,
		`{"argv":["git","log"],"e":""}`:      `argv=["git","log"] e=""`,
		`not json`:                           `not json`,
		``:                                   ``,
	} {
		if got := argumentText([]byte(input)); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
	// One line fits, whatever a model writes, and quickly.
	long := must.Get(json.Marshal(map[string]string{"content": strings.Repeat("x", 1<<20)}))(t)
	calls := newRunCalls(&app{client.NewApp(printer.Streams{ErrTerminal: true, Width: 60, Getenv: func(string) string { return "1" }})})
	c := calls.add("fs.write", long)
	if line := calls.line(c, linePart{nil, c.tool}, linePart{nil, calls.arguments(c)}).String(); lipgloss.Width(line) != 60 || !strings.HasSuffix(line, "…") {
		t.Errorf("%d cells: %q", lipgloss.Width(line), line)
	}
}
