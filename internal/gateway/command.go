package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"palyra/internal/core/config"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/gateway/presencehost"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/check"
)

// Command is the command line of palyrad: without a subcommand it runs the
// daemon. Logs go to stderr.
func Command(stdout, stderr io.Writer) *cobra.Command {
	s := &settings{keys: config.Flags(), flags: make(map[string]*setting)}
	root := &cobra.Command{
		Use:           "palyrad",
		Short:         "The gateway between a model and the machine",
		Long:          "palyrad decides every tool call with Cedar policy, asks a person where policy requires it, runs the call in a sandbox, and leaves a signed record.\n\nWithout a configuration file it runs with safe defaults.",
		Args:          arguments(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			return runUntilSignal(cmd.Context(), cfg, s.origins, logger(cfg, stderr))
		}),
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(misused)
	root.SetUsageFunc(printUsage)
	configured := []*cobra.Command{operatorCommand(s), membersCommand(s), policyCommand(s), thawCommand(s), keysCommand(s), presenceCommand(s), vaultCommand(s), backupCommand(s), doctorCommand(s), checkCommand(s)}
	s.register(root, false)
	for _, c := range configured {
		s.register(c, true)
	}
	root.AddCommand(configured...)
	for _, c := range configured {
		refuseKeys(c)
	}
	root.AddCommand(restoreCommand(), sandboxCommand(), versionCommand(), manCommand(), sandboxChildCommand())
	return root
}

func presenceCommand(s *settings) *cobra.Command {
	return presencehost.Command(presencehost.Ways{
		Reach: func(ctx context.Context, do func(presencehost.Keys) error) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return PresenceKeys(ctx, cfg, do)
		},
		Arguments: arguments,
	})
}

// refuseKeys makes c and every command below it refuse arguments in the form of a well-known
// key, as RPCs do. Arguments typed on this host reach the journal and the members' list without
// passing an interceptor.
func refuseKeys(c *cobra.Command) {
	for _, sub := range c.Commands() {
		refuseKeys(sub)
	}
	if c.RunE == nil {
		return
	}
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := check.Names("an argument", args...)
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if err == nil && f.Changed {
				err = check.Names("--"+f.Name, f.Value.String())
			}
		})
		if err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// misused marks an error in the command line of palyrad, for which the exit code is 2. For a key
// without a flag, it names the other ways to set the key.
func misused(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if key, variable, exists := config.KeyWithoutFlag(unknown.GetSpecifiedName()); exists {
			set := "Set " + key + " in the configuration file"
			if variable != "" {
				set += ", or the variable " + variable
			}
			return reason.Errorf(reason.InvalidInput, "%w: %s has no flag", err, key).WithRemedy("%s.", set)
		}
	}
	return reason.Errorf(reason.InvalidInput, "%w", err).WithRemedy("See `%s --help`.", cmd.CommandPath())
}

// arguments converts errors of an argument check to errors of misused.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
}

// groupOfFlag is the annotation that holds the heading of a flag.
const groupOfFlag = "group"

// printUsage prints the usage of a command, with the flags of the settings by groups. A
// subcommand reads only two or three settings, so it prints where they are documented.
func printUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n\nAvailable Commands:\n", cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range flagGroups(cmd) {
		if g.heading == "" || !cmd.HasParent() {
			fmt.Fprintf(&b, "\n%s:\n%s", cmp.Or(g.heading, "Flags"), g.flags.FlagUsages())
		}
	}
	if cmd.HasParent() && cmd.Flags().Lookup("config") != nil {
		fmt.Fprintf(&b, "\nThe settings of %s are flags of this command, too: see %[1]s --help.\n", cmd.Root().Name())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

type flagGroup struct {
	heading string
	flags   *pflag.FlagSet
}

// flagGroups returns all flags of a command by their headings. Flags without a heading come first.
func flagGroups(cmd *cobra.Command) []flagGroup {
	list := []flagGroup{{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}}
	add := func(f *pflag.Flag) {
		heading := strings.Join(f.Annotations[groupOfFlag], "")
		at := slices.IndexFunc(list, func(g flagGroup) bool { return g.heading == heading })
		if at < 0 {
			at = len(list)
			list = append(list, flagGroup{heading, pflag.NewFlagSet("", pflag.ContinueOnError)})
		}
		list[at].flags.AddFlag(f)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return list
}

func runUntilSignal(ctx context.Context, cfg *config.Config, origins config.Origins, log *slog.Logger) error {
	hangups := make(chan os.Signal, 1)
	if reloadSignal != nil {
		signal.Notify(hangups, reloadSignal)
		defer signal.Stop(hangups)
	}
	reload := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				select {
				case reload <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
	}()
	for _, note := range cfg.Notes {
		log.WarnContext(ctx, "the configuration has an old word", slog.String("note", note))
	}
	return Run(ctx, Options{Config: cfg, Origins: origins, Log: log, Reload: reload})
}

// settings are the flags that override the configuration, for every command that reads it. A
// command that does not read the configuration must not accept these flags.
type settings struct {
	// origins holds the source of each value of the last load.
	origins    config.Origins
	path       string
	keys       []config.Flag
	flags      map[string]*setting
	workspaces []string
}

// setting is a flag, set or not, with its value as the text that package config parses.
type setting struct {
	kind, text string
	given      bool
}

// Set stores the text; its value is checked together with all other settings.
func (s *setting) Set(text string) error {
	s.text, s.given = text, true
	return nil
}

// Type returns the placeholder of the value in a help text.
func (s *setting) Type() string { return s.kind }

func (s *setting) String() string { return s.text }

// register adds the flags of the settings to c and, if below is true, to its subcommands.
func (s *settings) register(c *cobra.Command, below bool) {
	flags := c.Flags()
	if below {
		flags = c.PersistentFlags()
	}
	flags.StringVar(&s.path, "config", "", "configuration `FILE` (default: palyra.toml in the usual places)")
	flags.StringArrayVar(&s.workspaces, "workspace", nil, "declare the workspace `NAME=DIR`; may be repeated")
	for _, f := range s.keys {
		if s.flags[f.Key] == nil {
			s.flags[f.Key] = &setting{kind: f.Value}
		}
		flags.Var(s.flags[f.Key], f.Name, f.Usage)
		flags.Lookup(f.Name).Annotations = map[string][]string{groupOfFlag: {f.Group}}
	}
}

// loaded returns a command function that loads the configuration and then calls do.
func (s *settings) loaded(do func(*cobra.Command, *config.Config) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load()
		if err != nil {
			return err
		}
		return do(cmd, cfg)
	}
}

func (s *settings) load() (*config.Config, error) {
	given := make(map[string]string)
	for key, f := range s.flags {
		if f.given {
			given[key] = f.text
		}
	}
	cfg, origins, err := config.Load(config.LoadOptions{Path: s.path, Flags: given})
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "%w", err)
	}
	s.origins = origins
	for _, text := range s.workspaces {
		name, dir, ok := strings.Cut(text, "=")
		if !ok {
			return nil, reason.Errorf(reason.ConfigInvalid, "--workspace %q: want NAME=DIR", text)
		}
		cfg.Workspaces = append(cfg.Workspaces, config.Workspace{Name: name, Path: dir})
	}
	return cfg, nil
}

func logger(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// sayWaiting prints the approval that an addition waits for, once it exists. An approval is
// needed only if palyrad runs and changes take two people. It runs until stop is called.
func sayWaiting(cmd *cobra.Command, cfg *config.Config) (stop func()) {
	ctx, cancel := context.WithCancel(cmd.Context())
	done := make(chan struct{})
	var waits string
	var as identity.Bundle
	go func() {
		defer close(done)
		own, err := identity.ReadBundle(statedir.Operator(cfg.StateDir))
		if err != nil {
			return // the addition reports the error
		}
		if v := api.WaitingChange(ctx, own, progress.Patience); v != nil {
			cmd.PrintErrf("waiting for another owner or admin, until %s: approval %s, `palyra approve %s`\n",
				v.GetExpiresAt().AsTime().Format(time.RFC3339), v.GetApprovalId(), v.GetApprovalId())
			waits, as = v.GetApprovalId(), own
		}
	}()
	return func() {
		cancel()
		<-done
		if waits == "" || cmd.Context().Err() == nil {
			return
		}
		// After an interruption, no key may remain for which the member could be added later.
		if err := api.WithdrawChange(cmd.Context(), as, waits); err != nil {
			cmd.PrintErrf("the change may still wait; `palyra approvals cancel %s` withdraws it\n", waits)
		}
	}
}
