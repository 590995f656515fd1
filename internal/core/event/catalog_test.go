package event_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// TestCatalogIsDocumented: docs/events.md has one row per code, in the order
// of the catalog, and nothing else.
func TestCatalogIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/events.md"))(t)
	var rows []event.Code
	for _, row := range regexp.MustCompile("(?m)^\\| `(PAL-[^`]*)` \\| .+ \\|$").FindAllSubmatch(text, -1) {
		rows = append(rows, event.Code(row[1]))
	}
	if !slices.Equal(rows, event.Codes) {
		t.Errorf("docs/events.md has rows for %v\nwant %v", rows, event.Codes)
	}
}
