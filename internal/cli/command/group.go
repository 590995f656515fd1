// Package command has the common parts of palyra's commands: groups, argument counts, formats of
// names, digests, times and files, and usage errors. It does not access a gateway.
package command

import (
	"github.com/spf13/cobra"

	"palyra/internal/core/text"
)

// Group is the action of a command with subcommands only: it shows its help, and reports an unknown
// subcommand with a did-you-mean.
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

// NewGroup returns a command with subcommands only.
func NewGroup(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: Group, Args: cobra.ArbitraryArgs}
	c.AddCommand(subcommands...)
	return c
}

// Args checks the number of arguments; most below 0 means no limit.
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
