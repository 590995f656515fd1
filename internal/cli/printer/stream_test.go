package printer_test

import (
	"bytes"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
)

// TestStreamedTableFits: rows that are printed one by one are no wider than the terminal, and
// their columns are aligned.
func TestStreamedTableFits(t *testing.T) {
	t.Parallel()
	listing := printer.Listing{Kind: "Thing", Columns: []string{"ID", "TOOL", "EVENT", "ACTOR", "SUMMARY"}, Drop: []string{"ACTOR"}}
	record := printer.Record{Cells: []string{strings.Repeat("1", 26), strings.Repeat("t", 40), "short", strings.Repeat("a", 30), strings.Repeat("s", 200)}}
	for _, width := range []int{80, 60, 0} {
		var out bytes.Buffer
		p := printer.New(printer.Streams{Out: &out, Err: &bytes.Buffer{}, OutTerminal: width > 0, Width: width})
		for i := range 2 {
			must.Do(t, p.PrintStream(listing, record, i == 0))
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 3 || lines[1] != lines[2] || !strings.Contains(lines[1], strings.Repeat("1", 26)) {
			t.Fatalf("at %d:\n%s", width, out.String())
		}
		for _, line := range lines {
			if n := lipgloss.Width(line); width > 0 && n > width {
				t.Errorf("at %d: %d columns: %s", width, n, line)
			}
		}
	}
}
