package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/config"
	"palyra/internal/reason"
)

// Command is the command line of palyrad: without a subcommand it runs the
// daemon. Logs go to stderr.
func Command(stdout, stderr io.Writer) *cobra.Command {
	s := &settings{flags: make(map[string]*string)}
	root := &cobra.Command{
		Use:           "palyrad",
		Short:         "The gateway between a model and the machine",
		Long:          "palyrad decides every tool call with Cedar policy, asks a human where policy says so, runs the call in a sandbox, and leaves a signed record.\n\nWithout a configuration file it runs with safe defaults.",
		Args:          arguments(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			return runUntilSignal(cmd.Context(), cfg, logger(cfg, stderr))
		}),
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(misused)
	configured := []*cobra.Command{operatorCommand(s), policyCommand(s), rotateCommand(s), doctorCommand(s)}
	s.register(root, false)
	for _, c := range configured {
		s.register(c, true)
	}
	root.AddCommand(configured...)
	root.AddCommand(sandboxCommand(), versionCommand(), sandboxChildCommand())
	return root
}

// misused is an error in how palyrad was called: exit code 2.
func misused(cmd *cobra.Command, err error) error {
	return reason.Errorf(reason.InvalidInput, "%w", err).WithRemedy("See `%s --help`.", cmd.CommandPath())
}

// arguments makes errors of an argument check those of misused.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
}

func runUntilSignal(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
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
	return Run(ctx, Options{Config: cfg, Log: log, Reload: reload})
}

// settings are the flags that override the configuration, of every command that
// reads it. One that does not must not take them as if it did.
type settings struct {
	path       string
	flags      map[string]*string
	workspaces []string
	changed    []func(name string) bool
}

// register adds a flag for every key that has one value, also to the commands
// below if those read the configuration, too.
func (s *settings) register(c *cobra.Command, below bool) {
	flags := c.Flags()
	if below {
		flags = c.PersistentFlags()
	}
	flags.StringVar(&s.path, "config", "", "configuration file (default: palyra.toml in the usual places)")
	flags.StringArrayVar(&s.workspaces, "workspace", nil, "declare a workspace, `NAME=DIR`; may be repeated")
	for _, key := range config.Keys() {
		if s.flags[key] == nil {
			s.flags[key] = new(string)
		}
		flags.StringVar(s.flags[key], config.FlagName(key), "", "set "+key)
		if strings.HasPrefix(key, "client.") {
			_ = flags.MarkHidden(config.FlagName(key))
		}
	}
	s.changed = append(s.changed, flags.Changed)
}

// loaded is a command that begins with the configuration.
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
	for key, value := range s.flags {
		if slices.ContainsFunc(s.changed, func(changed func(string) bool) bool { return changed(config.FlagName(key)) }) {
			given[key] = *value
		}
	}
	cfg, _, err := config.Load(config.LoadOptions{Path: s.path, Env: os.Getenv, Flags: given})
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "%w", err)
	}
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
