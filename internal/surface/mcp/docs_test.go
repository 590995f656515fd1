package mcp_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/surface/mcp"
)

// TestDocumentation: docs/mcp.md has the limits of all known clients, the protocol revisions,
// and the header of the limit.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile("../../../docs/mcp.md"))(t))
	rows := 0
	for name, limit := range mcp.Known {
		if rows++; !strings.Contains(text, fmt.Sprintf("| `%s` | %s |", name, limit)) {
			t.Errorf("docs/mcp.md lacks the row of %s, %s", name, limit)
		}
	}
	if _, table, _ := strings.Cut(text, "| client (`clientInfo.name`)"); strings.Count(strings.SplitN(table, "\n\n", 2)[0], "\n| `") != rows {
		t.Error("docs/mcp.md has a row of a client that is not known")
	}
	for _, revision := range append(mcp.Revisions, mcp.LimitHeader, "51") {
		if !strings.Contains(text, revision) {
			t.Errorf("docs/mcp.md does not name %s", revision)
		}
	}
}
