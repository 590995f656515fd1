package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/calls"
	"palyra/internal/cli/command"
	"palyra/internal/cli/evidence"
	"palyra/internal/cli/people"
	"palyra/internal/cli/policy"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/runs"
	"palyra/internal/cli/setup"
	"palyra/internal/cli/things"
	"palyra/internal/cli/tui"
	"palyra/internal/core/version"
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
		Long: "palyra controls palyrad, the gateway between a model and the machine. It proposes\n" +
			"tool calls, answers pending approvals, and reads and verifies the record.\n\n" +
			"On the host of the gateway nothing needs to be set up: start `palyrad`, and\n" +
			"palyra finds its credential. Elsewhere, get one with `palyra pair ADDRESS`\n" +
			"or `palyra login ADDRESS`, or name a credential bundle with --credentials\n" +
			"(`palyrad operator add NAME --role ROLE` makes one).",
		Example: "palyra status\n" +
			"palyra tools\n" +
			"palyra call fs.read workspace=demo path=README.md\n" +
			"palyra run -w demo \"what does this project do?\"\n" +
			"palyra approvals list\n" +
			"palyra journal tail",
		Version:           version.String(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.CheckFormat() },
		RunE:              command.Group,
		Args:              cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(command.FlagError)
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
	asked := calls.ApprovalsCommand(a.App)
	asked.AddCommand(policy.WhyCommand(a.App))
	in(groupCalls, runs.RunCommand(a.App), runs.Command(a.App, evidence.Prove(a.App)), calls.Command(a.App), calls.ListedCommand(a.App), calls.ToolsCommand(a.App), calls.ApproveCommand(a.App), calls.DenyCommand(a.App), asked, calls.GrantsCommand(a.App), tui.Command(a.App), calls.SessionsCommand(a.App), calls.WorkspacesCommand(a.App))
	in(groupEvidence, policy.Command(a.App), evidence.Command(a.App), evidence.AttestCommand(a.App))
	in(groupOperate, setup.UpCommand(a.App), setup.DownCommand(a.App, evidence.Export(a.App)), setup.HookCommand(a.App), people.ConsoleCommand(a.App), people.StatusCommand(a.App), people.FreezeCommand(a.App), people.ThawCommand(a.App), people.MembersCommand(a.App), people.DevicesCommand(a.App), people.RolesCommand(a.App), people.AccessCommand(a.App), people.TokensCommand(a.App), things.VaultCommand(a.App), things.NotifyCommand(a.App), things.SkillsCommand(a.App), things.MCPCommand(a.App, things.ServeCommand(a.App), setup.MCPConfigCommand(a.App)), people.PairingsCommand(a.App), people.PairCommand(a.App), people.ContextsCommand(a.App), people.LoginCommand(a.App), people.LogoutCommand(a.App), people.KeyCommand(a.App), people.ConfigCommand(a.App))
	in(groupOther, a.versionCommand(), a.manCommand(root))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddCommand(exitCodesTopic(), outputTopic())
	root.SetHelpFunc(a.help)
	return root
}

func (a *app) globals(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.Address, "address", "", "gateway address, host:port (PALYRA_ADDRESS)")
	f.StringVar(&a.Credentials, "credentials", "", "directory of the credential bundle (PALYRA_CREDENTIALS)")
	f.StringVar(&a.Context, "context", "", "one of several gateways, by its name (see palyra context)")
	f.BoolVar(&a.Socket, "socket", false, "reach the gateway of this machine over its Unix socket, without a certificate")
	f.StringVar(&a.Config, "config", "", "configuration file (PALYRA_CONFIG)")
	f.StringVarP(&a.Output, "output", "o", "", "output format: "+strings.Join(printer.Formats, ", "))
	f.BoolVar(&a.NoInput, "no-input", false, "ask nothing, even in a terminal")
	f.BoolVar(&a.NoColor, "no-color", false, "write no colours (NO_COLOR)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(printer.Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("credentials")
	_ = root.MarkPersistentFlagFilename("config", "toml")
}
