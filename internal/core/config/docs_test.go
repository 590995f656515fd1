package config

import (
	"os"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestDocumentedExample loads the example of the document.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/reference/configuration.md"))(t)
	_, rest, _ := strings.Cut(string(text), "```toml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/reference/configuration.md has no example")
	}
	w := newWorld(t)
	w.write(example)
	if c, _ := w.load(w.options()); c.MaxCallsPerRun != 100 || len(c.Workspaces) != 1 {
		t.Errorf("the example gives %+v", c)
	}
}
