package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// CommandNames returns the runnable commands of the tree, each without the leading palyra.
func CommandNames() []string {
	var names []string
	eachCommand(Command(), func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "palyra "))
		}
	})
	return names
}
