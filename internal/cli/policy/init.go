package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/profile"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// initFlags are the flags of `palyra policy init`.
type initFlags struct {
	profile    string
	force, yes bool
}

func (a *draftCommands) policyInit() *cobra.Command {
	var f initFlags
	c := &cobra.Command{Use: "init --profile NAME [DIR]", Short: "Write policies to start from, with their tests", Args: command.Args(0, 1),
		Long: "Write policies to start from, with comments and their tests, into DIR: by default\n" +
			"the directory that palyrad reads, which is policy.dir or next to palyra.toml.\n" +
			"It says whether they are in force.\n\n" + profileHelp() +
			"\nNothing is overwritten without --force and --yes.",
		Example: "palyra policy init --profile laptop\npalyra policy init --profile ci policies/",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.initPolicy(cmd.Context(), given, f)
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

func (a *draftCommands) initPolicy(ctx context.Context, given []string, f initFlags) error {
	profile, err := findProfile(f.profile)
	if err != nil {
		return err
	}
	g, status := a.askable(ctx)
	read := a.dirRead(g, status)
	dir, err := a.initDir(given, read, status)
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
	for _, s := range profile.Files() {
		names = append(names, filepath.Join(dir, s.Name))
	}
	stands, setting := a.afterInit(ctx, g, profile.Files()), ""
	if !stands.inForce && dir != read {
		setting = policyDirConfig(dir)
	}
	body := printer.Object{
		{"profile", profile.Name}, {"dir", dir}, {"files", toAny(names)}, {"config", setting}, {"in_force", stands.inForce}, {"standing", stands.text},
	}
	err = a.PrintOne("PolicyInit", printer.Record{Name: dir, Body: body}, func(p *printer.Page) {
		p.List("wrote", names)
		p.Wrapped("state", stands.text)
		if setting != "" {
			p.Block("put into palyra.toml", setting)
		}
		p.Field("then", "palyra policy test "+dir)
	})
	if err == nil && stands.pending {
		return command.Exit(reason.ExitPending)
	}
	return err
}

// askable returns the gateway and its status, nil if none is reachable. Policies are written
// without a gateway, too.
func (a *draftCommands) askable(ctx context.Context) (*client.Gateway, *palyrav1.GetStatusResponse) {
	g, err := a.Connect(ctx)
	if err != nil {
		return nil, nil
	}
	status, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return nil, nil
	}
	return g, status
}

// dirRead returns the policy directory of palyrad on this machine: from the running gateway, or
// else from the configuration.
func (a *draftCommands) dirRead(g *client.Gateway, status *palyrav1.GetStatusResponse) string {
	if path := status.GetPolicyDirectory().GetPath(); path != "" && g.Local {
		return path
	}
	return a.configuredDir()
}

// configuredDir returns policy.dir of this machine's configuration. It ignores errors in the
// configuration, because a policy directory that does not exist yet is such an error.
func (a *draftCommands) configuredDir() string {
	c, _, _, err := config.LoadClient(a.LoadOptions())
	if err != nil {
		return ""
	}
	return c.Policy.Dir
}

// afterInit makes the gateway reload its directory, and reports whether the files are in force. It
// does not override an activation.
func (a *draftCommands) afterInit(ctx context.Context, g *client.Gateway, files []policy.Source) standing {
	if g == nil {
		return standing{text: "not in force: no palyrad was reached; it reads them when it starts, if this is its directory"}
	}
	sources := slices.DeleteFunc(slices.Clone(files), func(s policy.Source) bool { return strings.HasSuffix(s.Name, testSuffix) })
	stands := standingOf(ctx, g, sources)
	v, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{})
	if stands.inForce || err != nil || v.GetActivated() {
		return stands
	}
	if _, err := g.Policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{}); err != nil {
		why := client.Explain(nil, err)
		if why.Code == reason.ChangePending {
			return standing{pending: true, text: "not in force: " + why.Message + "; another person answers with `palyra approve " + why.Fields["approval_id"] + "`"}
		}
		return standing{text: "not in force: " + why.Message + "; correct them, then `palyra policy reload`"}
	}
	return standingOf(ctx, g, sources)
}

func toAny(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// policyDirConfig returns the configuration that sets a policy directory.
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
	return profile.Profile{}, command.Usage("the profile %q does not exist", name).WithRemedy("%s", text.NearestHelp(name, profileNames()))
}

// initDir returns the absolute directory to write to: by default the one that palyrad reads, and
// never one that an agent can write to.
func (a *draftCommands) initDir(given []string, read string, status *palyrav1.GetStatusResponse) (string, error) {
	dir := read
	if len(given) == 1 {
		dir = given[0]
	}
	if dir == "" {
		return "", command.Usage("policy.dir is empty, so that palyrad reads no directory").
			WithRemedy("Remove `policy.dir = \"\"` from palyra.toml, or name a directory.")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", command.Usage("finding the directory: %w", err)
	}
	c, _, _, err := config.LoadClient(a.LoadOptions())
	if err != nil {
		return "", err
	}
	for _, w := range status.GetWorkspaces() {
		c.Workspaces = append(c.Workspaces, config.Workspace{Name: w.GetName(), Path: w.GetPath()})
	}
	if w, ok := c.Overlapping(dir); ok {
		return "", command.Usage("%s overlaps workspace %s (%s): an agent must not be able to write its own policies", dir, w.Name, w.Path).
			WithRemedy("Omit the directory: `palyra policy init --profile NAME` writes next to palyra.toml.")
	}
	return dir, nil
}

// writeProfile writes all files or, if one already exists, none.
func writeProfile(p profile.Profile, dir string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	for _, s := range p.Files() {
		path := filepath.Join(dir, s.Name)
		if _, err := os.Lstat(path); !force && !errors.Is(err, fs.ErrNotExist) {
			return reason.Errorf(reason.AlreadyExists, "%s already exists; nothing was written", path).
				WithRemedy("Name another directory, or overwrite with --force --yes.")
		}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return command.Usage("making the policy directory: %w", err)
	}
	for _, s := range p.Files() {
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
