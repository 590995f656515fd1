package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// CommandNames are the commands of the tree that do something themselves, each as it
// is typed after palyra.
func CommandNames() []string {
	var names []string
	eachCommand(Command(), func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "palyra "))
		}
	})
	return names
}
