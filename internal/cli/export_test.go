package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
)

// CommandNames are the commands of the tree that do something themselves, each as it
// is typed after palyra.
func CommandNames() []string {
	var names []string
	eachCommand((&app{client.NewApp(printer.Streams{})}).root(), func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "palyra "))
		}
	})
	return names
}

// ExitCodes are those of `palyra help exit-codes`.
func ExitCodes() []int {
	var codes []int
	for _, row := range exitCodes {
		codes = append(codes, row.code)
	}
	return codes
}

// Root is the tree of commands.
func Root() *cobra.Command { return (&app{client.NewApp(printer.Streams{})}).root() }
