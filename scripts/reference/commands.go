package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"palyra/internal/cli"
	"palyra/internal/gateway"
)

var commandsPage = page{
	file: "commands.md", title: "Commands", body: commands,
	intro: `
These are the commands of ` + "`palyra` and `palyrad`, as `--help`" + ` describes them. [The command line](../cli.md)
is the guide to ` + "`palyra`" + `. The keys of [configuration](configuration.md) are flags of ` + "`palyrad`" + ` as well.`,
}

func commands() (string, error) {
	var b strings.Builder
	for _, root := range []*cobra.Command{cli.Command(), gateway.Command(io.Discard, io.Discard)} {
		fmt.Fprintf(&b, "## %s\n\n", root.Name())
		describe(&b, root, root.PersistentFlags())
		for _, c := range leaves(root) {
			fmt.Fprintf(&b, "### %s\n\n", c.CommandPath())
			describe(&b, c, nil)
		}
	}
	return b.String(), nil
}

// leaves returns the commands below c that do something, in the order of their names.
func leaves(c *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		if !sub.HasSubCommands() || sub.Flags().HasFlags() {
			list = append(list, sub)
		}
		list = append(list, leaves(sub)...)
	}
	slices.SortFunc(list, func(a, b *cobra.Command) int { return strings.Compare(a.CommandPath(), b.CommandPath()) })
	return list
}

// describe writes the help of a command. Flags that are keys of the configuration are left out.
func describe(b *strings.Builder, c *cobra.Command, inherited *pflag.FlagSet) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n```\n%s\n```\n\n", strings.TrimSpace(text), c.UseLine())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if len(f.Annotations["group"]) == 0 && f.Name != "help" {
			flags.AddFlag(f)
		}
	}
	c.LocalNonPersistentFlags().VisitAll(add)
	if inherited != nil {
		inherited.VisitAll(add)
	}
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "```\n%s```\n\n", flags.FlagUsages())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", strings.Trim(c.Example, "\n"))
	}
}
