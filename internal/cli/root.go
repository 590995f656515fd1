package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/version"
)

// The groups of `palyra --help`.
const (
	groupCalls    = "calls"
	groupEvidence = "evidence"
	groupOperate  = "operate"
	groupOther    = "other"
)

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "palyra",
		Short: "Propose tool calls, answer approvals, read the record",
		Long: "palyra talks to palyrad, the gateway between a model and the machine:\n" +
			"propose tool calls, answer the ones that wait for a human, and read and\n" +
			"verify what was recorded.\n\n" +
			"On the host of the gateway nothing needs to be set up: start `palyrad`, and\n" +
			"palyra finds its credential. Elsewhere, name a credential bundle with\n" +
			"--credentials; `palyrad operator add NAME --role ROLE` makes one.",
		Example: "palyra status\n" +
			"palyra tools\n" +
			"palyra call fs.read workspace=demo path=README.md\n" +
			"palyra run -w demo \"what does this project do?\"\n" +
			"palyra approvals list\n" +
			"palyra journal tail",
		Version:           version.String(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkFormat() },
		RunE:              group,
		Args:              cobra.ArbitraryArgs,
	}
	root.SetVersionTemplate("palyra {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageMark{err} })
	root.AddGroup(
		&cobra.Group{ID: groupCalls, Title: "Calls and approvals:"},
		&cobra.Group{ID: groupEvidence, Title: "Policy and record:"},
		&cobra.Group{ID: groupOperate, Title: "Operation:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	a.globals(root)
	in := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	in(groupCalls, a.runCommand(), a.runsCommand(), a.callCommand(), a.toolsCommand(), a.approvalsCommand(), a.grantsCommand(), a.sessionsCommand(), a.workspaceCommand())
	in(groupEvidence, a.policyCommand(), a.journalCommand(), a.attestCommand())
	in(groupOperate, a.statusCommand(), a.freezeCommand(), a.thawCommand(), a.membersCommand(), a.devicesCommand(), a.configCommand())
	in(groupOther, a.versionCommand(), a.manCommand(root))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddCommand(exitCodesTopic(), outputTopic())
	root.SetHelpFunc(a.help)
	return root
}

func (a *app) globals(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.flags.address, "address", "", "gateway address, host:port (PALYRA_ADDRESS)")
	f.StringVar(&a.flags.credentials, "credentials", "", "directory of the credential bundle (PALYRA_CREDENTIALS)")
	f.StringVar(&a.flags.config, "config", "", "configuration file (PALYRA_CONFIG)")
	f.StringVarP(&a.flags.output, "output", "o", "", "output format: "+strings.Join(formats, ", "))
	f.BoolVar(&a.flags.noInput, "no-input", false, "ask nothing, even in a terminal")
	f.BoolVar(&a.flags.noColor, "no-color", false, "write no colours (NO_COLOR)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("credentials")
	_ = root.MarkPersistentFlagFilename("config", "toml")
}

// group is what a command that only has subcommands does: it shows its help,
// and a word it does not know is an error with a did-you-mean.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return usage("unknown command %q for %q", args[0], cmd.CommandPath()).
		WithRemedy("%s", nearestOf(args[0], known))
}

func newGroup(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: group, Args: cobra.ArbitraryArgs}
	c.AddCommand(subcommands...)
	return c
}

// args checks the number of arguments; max below 0 means no limit.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return usage("%s: an argument is missing", cmd.CommandPath()).WithRemedy("Use it as: %s", cmd.UseLine())
		case most >= 0 && len(given) > most:
			return usage("%s: too many arguments: %q", cmd.CommandPath(), given[most]).WithRemedy("Use it as: %s", cmd.UseLine())
		}
		return nil
	}
}
