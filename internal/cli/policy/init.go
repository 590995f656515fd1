package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/config"
	"palyra/internal/policy/profile"
	"palyra/internal/reason"
)

// initFlags are those of `palyra policy init`.
type initFlags struct {
	profile    string
	force, yes bool
}

func (a *app) policyInit() *cobra.Command {
	var f initFlags
	c := &cobra.Command{Use: "init --profile NAME [DIR]", Short: "Write policies to start from, with their tests", Args: command.Args(0, 1),
		Long: "Write policies to start from, with comments and their tests, into DIR: by default\n" +
			"policy.dir of the configuration, or else ./policies.\n\n" + profileHelp() +
			"\nNothing is overwritten, unless --force and --yes say so.",
		Example: "palyra policy init --profile laptop\npalyra policy init --profile ci policies/",
		RunE: func(_ *cobra.Command, given []string) error {
			return a.initPolicy(given, f)
		}}
	c.Flags().StringVar(&f.profile, "profile", "", "which policies: "+strings.Join(profileNames(), ", "))
	c.Flags().BoolVar(&f.force, "force", false, "overwrite files; needs --yes")
	c.Flags().BoolVar(&f.yes, "yes", false, "do overwrite")
	_ = c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profileNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func profileNames() []string {
	var names []string
	for _, p := range profile.All() {
		names = append(names, p.Name)
	}
	return names
}

func profileHelp() string {
	var b strings.Builder
	for _, p := range profile.All() {
		lines := printer.Wrap(p.About, printer.PageWidth-printer.LabelWidth)
		fmt.Fprintf(&b, "  %-*s%s\n", printer.LabelWidth-2, p.Name, strings.Join(lines, "\n"+strings.Repeat(" ", printer.LabelWidth)))
	}
	return b.String()
}

func (a *app) initPolicy(given []string, f initFlags) error {
	profile, err := findProfile(f.profile)
	if err != nil {
		return err
	}
	dir, err := a.initDir(given)
	if err != nil {
		return err
	}
	if f.force && !f.yes {
		return command.Usage("--force overwrites files in %s: add --yes if it may", dir)
	}
	if err := writeProfile(profile, dir, f.force); err != nil {
		return err
	}
	var names []string
	for _, s := range profile.Files {
		names = append(names, filepath.Join(dir, s.Name))
	}
	body := printer.Object{{"profile", profile.Name}, {"dir", dir}, {"files", toAny(names)}, {"config", policyDirConfig(dir)}}
	return a.PrintOne("PolicyInit", printer.Record{Name: dir, Body: body}, func(p *printer.Page) {
		p.List("wrote", names)
		p.Block("put into palyra.toml", policyDirConfig(dir))
		p.Field("then", "palyra policy test "+dir)
	})
}

func toAny(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// policyDirConfig makes palyrad use a policy directory.
func policyDirConfig(dir string) string { return "[policy]\ndir = " + strconv.Quote(dir) + "\n" }

func findProfile(name string) (profile.Profile, error) {
	for _, p := range profile.All() {
		if p.Name == name {
			return p, nil
		}
	}
	if name == "" {
		return profile.Profile{}, command.Usage("--profile is missing").WithRemedy("Choose one of %s.", strings.Join(profileNames(), ", "))
	}
	return profile.Profile{}, command.Usage("there is no profile %q", name).WithRemedy("%s", command.Nearest(name, profileNames()))
}

// initDir is the directory to write to, absolute.
func (a *app) initDir(given []string) (string, error) {
	dir := "policies"
	if len(given) == 1 {
		dir = given[0]
	} else if c, _, err := config.Load(a.LoadOptions()); err != nil {
		return "", err
	} else if c.Policy.Dir != "" {
		dir = c.Policy.Dir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", command.Usage("finding the directory: %w", err)
	}
	return dir, nil
}

// writeProfile writes all files or, when one is there already, none.
func writeProfile(p profile.Profile, dir string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	for _, s := range p.Files {
		path := filepath.Join(dir, s.Name)
		if _, err := os.Lstat(path); !force && !errors.Is(err, fs.ErrNotExist) {
			return reason.Errorf(reason.AlreadyExists, "%s is there already; nothing was written", path).
				WithRemedy("Name another directory, or overwrite with --force --yes.")
		}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return command.Usage("making the policy directory: %w", err)
	}
	for _, s := range p.Files {
		if err := writeNew(filepath.Join(dir, s.Name), s.Text, flags); err != nil {
			return command.Usage("writing the policies: %w", err)
		}
	}
	return nil
}

func writeNew(path, text string, flags int) error {
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
