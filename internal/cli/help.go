package cli

import (
	"fmt"
	"strings"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/manpage"
	"palyra/internal/core/reason"
)

// styledWidth is the narrowest terminal for styled help: styling truncates examples to the width.
const styledWidth = 100

// help prints styled help to a terminal, and cobra's plain text to a pipe. Styling queries the
// terminal's background, so it is used only for help, and never before an answer is read.
func (a *app) help(cmd *cobra.Command, _ []string) {
	// For an unknown subcommand of a group, cobra requests the help of the group.
	if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 {
		a.Say("%v", command.Group(cmd, given))
	}
	if cmd.Annotations["topic"] != "" || !a.Colour(a.OutTerminal) || a.Width < styledWidth {
		fmt.Fprint(a.Out, plainHelp(cmd))
		return
	}
	// fang styles a command tree only while it executes it, so help uses a separate tree.
	styled := (&app{client.NewApp(a.Streams)}).root()
	styled.SetOut(a.Out)
	styled.SetErr(a.Err)
	styled.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	if err := fang.Execute(cmd.Context(), styled, fang.WithoutManpage(), fang.WithoutVersion()); err != nil {
		fmt.Fprint(a.Out, plainHelp(cmd))
	}
}

func plainHelp(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	if cmd.Annotations["topic"] != "" {
		return text + "\n"
	}
	return text + "\n\n" + cmd.UsageString()
}

// manual is the page palyra(1).
var manual = manpage.Page{Section: 1, SeeAlso: []string{"palyrad(8)"}}

// manCommand writes the manual page.
func (a *app) manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Write the manual page, in roff", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.WriteOut(manual.Write(root))
		},
	}
}

// exitCodesTopic is `palyra help exit-codes`.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of palyra:\n\n")
	for _, row := range reason.ExitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", row.Code, row.Meaning)
	}
	b.WriteString("\nA change that needs a second approver exits 11 and prints the id of its request;\n" +
		"with --wait it exits 0 once the change is applied.\n" +
		"\n`palyra call` exits 0 for any exit code of the tool, which is in the\n" +
		"result; other codes mean that the call did not complete. `palyra run` and\n" +
		"`palyra runs watch` exit 0 when the run completed, with any outcome of its calls,\n" +
		"1 when it was cancelled, and otherwise with the code of the reason for its end.\n\n" +
		"Reasons and their exit codes:\n\n")
	for _, row := range reason.Table {
		fmt.Fprintf(&b, "  %-26s %3d  %s\n", row.Code, row.Exit, row.Sentence)
	}
	return topic("exit-codes", "The exit codes and the reasons behind them", strings.TrimSuffix(b.String(), "\n"))
}

// outputTopic is `palyra help output`.
func outputTopic() *cobra.Command {
	return topic("output", "The output formats", `Data goes to stdout, messages to stderr.

  table   columns (the default); truncated to the terminal's width
  wide    more columns, nothing truncated
  json    one document: {"apiVersion": "`+printer.ApiVersion+`", "kind": ..., ...};
          lists are kind <Kind>List with "items"; endless lists are ndjson
  yaml    the same as YAML
  ndjson  one object per line
  name    ids alone, one per line

Times are RFC 3339 in UTC, durations as Go writes them (1m30s), enums in lower
case. Fields are only ever added. Control, bidirectional and zero-width
characters are written as \u202e in JSON and YAML and as \u{202e} elsewhere.

palyra call prints the tool's result: -o json as the tool returned it, -o
ndjson every event of the call, otherwise readable text in a terminal and JSON
in a pipe. palyra run and palyra runs watch print the model's last answer: -o
json in one document with the run, -o ndjson every event of the run, -o name the
run's id.`)
}

func topic(name, short, text string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Long: text, Annotations: map[string]string{"topic": name}}
}
