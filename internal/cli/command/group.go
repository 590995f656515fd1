// Package command is what every command of palyra is built of: groups of
// commands, the number of arguments, the forms of names, digests, times and
// files, and the errors of wrong usage. It knows no gateway.
package command

import (
	"github.com/spf13/cobra"

	"palyra/internal/core/text"
)

// Group is what a command that only has subcommands does: it shows its help,
// and a word it does not know is an error with a did-you-mean.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return Usage("unknown command %q for %q", args[0], cmd.CommandPath()).
		WithRemedy("%s", text.NearestHelp(args[0], known))
}

// NewGroup is a command that only has subcommands.
func NewGroup(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: Group, Args: cobra.ArbitraryArgs}
	c.AddCommand(subcommands...)
	return c
}

// Args checks the number of arguments; max below 0 means no limit.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return Usage("%s: an argument is missing", cmd.CommandPath()).WithRemedy("Use it as: %s", cmd.UseLine())
		case most >= 0 && len(given) > most:
			return Usage("%s: too many arguments: %q", cmd.CommandPath(), given[most]).WithRemedy("Use it as: %s", cmd.UseLine())
		}
		return nil
	}
}
