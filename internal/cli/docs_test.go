package cli

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/must"
)

// TestDocs: docs/cli.md names every command and every exit code.
func TestDocs(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/cli.md"))(t)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Short == "" {
				t.Errorf("%s has no short text", sub.CommandPath())
			}
			if !strings.Contains(string(text), sub.Name()) {
				t.Errorf("docs/cli.md does not name %s", sub.CommandPath())
			}
			walk(sub)
		}
	}
	walk((&app{client.NewApp(printer.Streams{})}).root())
	for _, row := range exitCodes {
		if !strings.Contains(string(text), "| "+strconv.Itoa(row.code)+" | ") {
			t.Errorf("docs/cli.md does not name exit code %d", row.code)
		}
	}
}
