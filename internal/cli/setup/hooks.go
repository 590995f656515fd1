package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/setup/install"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// hookCommands is one run of the program, with the commands of this family.
type hookCommands struct{ *client.App }

// HookCommand is `palyra hook`.
func HookCommand(program *client.App) *cobra.Command {
	a := &hookCommands{program}
	return command.NewGroup("hook", "Have agents ask Palyra before they run a tool", a.install(), a.uninstall(), a.status(), a.generic(), a.schema())
}

// hookFlags select a hook.
type hookFlags struct {
	user, project, managed, preview bool
	transport                       string
}

func (f *hookFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.user, "user", false, "for you, in any directory (the default)")
	c.Flags().BoolVar(&f.project, "project", false, "for the project in the current directory, for all its users")
	c.Flags().BoolVar(&f.managed, "managed", false, "for everybody on this machine, in the agent's managed settings; as root")
	c.MarkFlagsMutuallyExclusive("user", "project", "managed")
	c.ValidArgs = []string{string(files.ClaudeCode), string(files.Codex)}
}

// wanted returns the hook that the flags and arguments select.
func (f *hookFlags) wanted(given []string) (install.Wanted, error) {
	w := install.Wanted{Agent: files.Agent(given[0]), Scope: files.User, Transport: f.transport}
	if w.Agent != files.ClaudeCode && w.Agent != files.Codex {
		return w, command.Usage("hooks for %q are not supported", given[0]).WithRemedy("Name claude-code or codex; other agents get Palyra's tools by `palyra mcp config`.")
	}
	switch {
	case f.managed:
		w.Scope = files.Managed
	case f.project:
		dir, err := os.Getwd()
		if err != nil {
			return w, fmt.Errorf("finding the current directory: %w", err)
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return w, fmt.Errorf("finding the current directory: %w", err)
		}
		w.Scope, w.Project = files.Project, dir
	}
	return w, nil
}

// site returns the properties of this machine, and the record of its installations.
func (a *hookCommands) site() (install.Site, install.Record, error) {
	m, err := install.MachineOf(a.App)
	if err != nil {
		return install.Site{}, install.Record{}, err
	}
	c, _, _, err := config.LoadClient(a.LoadOptions())
	if err != nil {
		return install.Site{}, install.Record{}, err
	}
	r, err := install.Read(m.ClientState())
	return install.SiteOf(a.App, m, c, &r), r, err
}

// gateway returns the gateway; nil if it is not reachable.
func (a *hookCommands) gateway(ctx context.Context) (*client.Gateway, error) {
	g, err := a.Connect(ctx)
	if err == nil {
		_, err = g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	}
	if err != nil && reason.Of(client.Explain(nil, err)) == reason.NotConnected {
		return nil, nil
	}
	return g, err
}

func (a *hookCommands) install() *cobra.Command {
	f := &hookFlags{}
	c := &cobra.Command{
		Use: "install AGENT", Short: "Write Palyra's hook into an agent's settings", Args: command.Args(1, 1),
		Long: "Write Palyra's hook into the settings of Claude Code (claude-code) or Codex (codex), so\n" +
			"that each tool call of the agent is decided here first. The rest of the file, with its\n" +
			"comments, is unchanged; `palyra hook uninstall` restores it. palyrad monitors the entry.\n\n" +
			"Claude Code asks over HTTP if a service manager holds the port for palyrad and the\n" +
			"machine has no other users, and with a command otherwise. Codex asks with a command,\n" +
			"which is marked as trusted with the hash that Codex computes. Credentials are not written\n" +
			"into files of a project, of dotfiles or of all users.",
		Example: "palyra hook install claude-code\npalyra hook install codex --dry-run\npalyra hook install claude-code --project\nsudo palyra hook install claude-code --managed",
	}
	f.register(c)
	c.Flags().BoolVar(&f.preview, "dry-run", false, "show what would be written, and write nothing")
	c.Flags().StringVar(&f.transport, "transport", "", "http or command; the default chooses")
	_ = c.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{install.TransportHTTP, install.TransportCommand}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(cmd *cobra.Command, given []string) error {
		w, err := f.wanted(given)
		if err != nil {
			return err
		}
		if f.preview {
			return a.previewInstall(cmd.Context(), w)
		}
		return a.installHook(cmd.Context(), w)
	}
	return c
}

func (a *hookCommands) previewInstall(ctx context.Context, w install.Wanted) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	p, err := site.Plan(ctx, w, "")
	if err != nil {
		return err
	}
	var files []printer.Object
	for _, e := range p.Edits {
		files = append(files, e.Record())
	}
	body := printer.Object{{Name: "agent", Value: string(w.Agent)}, {Name: "scope", Value: string(w.Scope)}, {Name: "transport", Value: p.Hook.Transport}, {Name: "files", Value: files}, {Name: "notes", Value: p.Notes}}
	return a.PrintOne("HookPlan", printer.Record{Name: string(w.Agent), Body: body}, func(page *printer.Page) {
		page.Field("agent", w.Agent.Title())
		page.Field("asks by", p.Hook.Transport)
		p.Show(page)
	})
}

func (a *hookCommands) installHook(ctx context.Context, w install.Wanted) (err error) {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	g, err := a.gateway(ctx)
	if err != nil {
		return err
	}
	book, err := install.Open(site.ClientState())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	i := &install.Installer{Site: site, Book: book, Gateway: g}
	done, err := i.Install(ctx, w)
	if err != nil {
		return err
	}
	body := printer.Object{
		{Name: "agent", Value: string(w.Agent)}, {Name: "scope", Value: string(w.Scope)}, {Name: "transport", Value: done.Hook.Transport},
		{Name: "files", Value: done.Files},
	}
	if done.Token != "" {
		body = append(body, printer.Member{Name: "token", Value: done.Token})
	}
	return a.PrintOne("Hook", printer.Record{Name: string(w.Agent), Body: body}, func(page *printer.Page) {
		page.Field("agent", w.Agent.Title())
		page.Field("asks by", done.Hook.Transport)
		page.List("wrote", done.Files)
		if done.Token != "" {
			page.Field("token", done.Token)
			page.Field("", "set "+install.TokenVariable+" to it where the agent is started; it is shown once")
		}
		page.Field("strength", site.Strength(done.Hook))
	})
}

func (a *hookCommands) uninstall() *cobra.Command {
	f := &hookFlags{}
	c := &cobra.Command{
		Use: "uninstall AGENT", Short: "Remove Palyra's hook from an agent's settings", Args: command.Args(1, 1),
		Long: "Remove Palyra's hook from an agent's settings. A file without later changes is restored\n" +
			"byte for byte; from any other file, Palyra's entries are removed. The hook's token is\n" +
			"revoked, and palyrad no longer monitors the entry.",
		Example: "palyra hook uninstall claude-code\npalyra hook uninstall codex --project",
	}
	f.register(c)
	c.RunE = func(cmd *cobra.Command, given []string) error {
		w, err := f.wanted(given)
		if err != nil {
			return err
		}
		return a.uninstallHook(cmd.Context(), w)
	}
	return c
}

func (a *hookCommands) uninstallHook(ctx context.Context, w install.Wanted) (err error) {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	g, err := a.gateway(ctx)
	if err != nil {
		return err
	}
	book, err := install.Open(site.ClientState())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	h := book.Hook(w.Agent, w.Scope, w.Project)
	if h == nil {
		return reason.Errorf(reason.NotFound, "no hook of Palyra for %s is installed (scope %s)", w.Agent.Title(), w.Scope).
			WithRemedy("See `palyra hook status %s`.", w.Agent)
	}
	i := &install.Installer{Site: site, Book: book, Gateway: g}
	done, err := i.Uninstall(ctx, *h)
	if err != nil && !errors.Is(err, install.ErrGatewayAway) {
		return err
	}
	if errors.Is(err, install.ErrGatewayAway) {
		err = reason.Errorf(reason.NotConnected, "%w", err).WithRemedy("Start palyrad, and run this again.")
	}
	return errors.Join(a.printUndone(done), err)
}

var undoneListing = printer.Listing{Kind: "UndoneFile", Columns: []string{"FILE", "NOW"}, Empty: "nothing was written"}

func (a *hookCommands) printUndone(done []install.Undone) error {
	return a.PrintList(undoneListing, printer.Records(done, func(u install.Undone) printer.Record {
		return printer.Record{Name: u.Path, Body: printer.Object{{Name: "path", Value: u.Path}, {Name: "state", Value: string(u.How)}}, Cells: []string{u.Path, string(u.How)}}
	}))
}

func (a *hookCommands) status() *cobra.Command {
	f := &hookFlags{}
	c := &cobra.Command{
		Use: "status [AGENT]", Short: "Test the hooks, and show how they can be bypassed", Args: command.Args(0, 1),
		Long: "Test each installed hook with a call that must be denied: a write to the agent's own\n" +
			"settings, requested as the agent would, and never executed. Then show the strength of\n" +
			"the hook, whether its entry was changed, and which other hooks and settings can rewrite,\n" +
			"disable or bypass it. Exits 1 if a hook does not work.",
		Example: "palyra hook status\npalyra hook status codex",
	}
	c.ValidArgs = []string{string(files.ClaudeCode), string(files.Codex)}
	c.RunE = func(cmd *cobra.Command, given []string) error {
		agents := files.Hooked
		if len(given) == 1 {
			w, err := f.wanted(given)
			if err != nil {
				return err
			}
			agents = []files.Agent{w.Agent}
		}
		return a.showStatus(cmd.Context(), agents)
	}
	return c
}

// hookStatus is the state of a hook.
type hookStatus struct {
	agent    files.Agent
	hook     *install.Hook
	proof    install.Proof
	strength string
	entries  []string
	findings []install.Finding
}

func (a *hookCommands) showStatus(ctx context.Context, agents []files.Agent) error {
	site, record, err := a.site()
	if err != nil {
		return err
	}
	project, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current directory: %w", err)
	}
	watched := a.watched(ctx)
	var list []hookStatus
	dead := false
	for _, agent := range agents {
		var hooks []*install.Hook
		for i := range record.Hooks {
			if record.Hooks[i].Agent == agent {
				hooks = append(hooks, &record.Hooks[i])
			}
		}
		if len(hooks) == 0 {
			hooks = []*install.Hook{nil}
		}
		for _, h := range hooks {
			s := hookStatus{agent: agent, hook: h}
			if h != nil {
				s.proof, s.strength = site.Prove(ctx, *h), site.Strength(*h)
				dead = dead || !s.proof.Alive
				s.entries = watched[h.Installation]
				if s.entries == nil {
					s.entries = []string{"not monitored: palyrad does not answer, or the installation is not registered"}
				}
			}
			if s.findings, err = site.Findings(agent, project, h); err != nil {
				return err
			}
			list = append(list, s)
		}
	}
	if err := a.printStatus(list); err != nil {
		return err
	}
	if dead {
		return command.Exit(1)
	}
	return nil
}

// watched returns palyrad's view of the entries of each known installation.
func (a *hookCommands) watched(ctx context.Context) map[string][]string {
	g, err := a.gateway(ctx)
	if err != nil || g == nil {
		return nil
	}
	reply, err := g.Installed.ListInstalled(ctx, &palyrav1.ListInstalledRequest{})
	if err != nil {
		return nil
	}
	out := make(map[string][]string)
	for _, i := range reply.GetInstallations() {
		out[i.GetInstallationId()] = []string{}
		for _, e := range i.GetEntries() {
			if e.GetState() != string(watch.Intact) {
				out[i.GetInstallationId()] = append(out[i.GetInstallationId()], e.GetPath()+" ("+strings.Join(e.GetKeys(), ".")+") is "+e.GetState()+" since "+a.Moment(e.GetChangedAt()))
			}
		}
	}
	return out
}

func (a *hookCommands) printStatus(list []hookStatus) error {
	var hooks []printer.Object
	for _, s := range list {
		hooks = append(hooks, s.object())
	}
	return a.PrintOne("HookStatus", printer.Record{Name: "hooks", Body: printer.Object{{Name: "hooks", Value: hooks}}}, func(p *printer.Page) {
		for i, s := range list {
			if i > 0 {
				p.Gap()
			}
			s.write(p)
		}
	})
}

func (s hookStatus) object() printer.Object {
	findings := []printer.Object{}
	for _, f := range s.findings {
		findings = append(findings, printer.Object{{Name: "path", Value: f.Path}, {Name: "what", Value: f.What}, {Name: "bypasses", Value: f.Bad}})
	}
	body := printer.Object{{Name: "agent", Value: string(s.agent)}, {Name: "installed", Value: s.hook != nil}, {Name: "alive", Value: s.proof.Alive}}
	if s.hook != nil {
		body = append(body, printer.Member{Name: "scope", Value: string(s.hook.Scope)}, printer.Member{Name: "transport", Value: s.hook.Transport},
			printer.Member{Name: "detail", Value: s.proof.Detail}, printer.Member{Name: "strength", Value: s.strength}, printer.Member{Name: "changed", Value: append([]string{}, s.entries...)})
	}
	return append(body, printer.Member{Name: "findings", Value: findings})
}

func (s hookStatus) write(p *printer.Page) {
	p.Field("agent", s.agent.Title())
	if s.hook == nil {
		p.Field("hook", "not installed: `palyra hook install "+string(s.agent)+"`")
	} else {
		p.Field("hook", fmt.Sprintf("%s, by %s", s.hook.Scope, s.hook.Transport))
		if s.proof.Alive {
			p.Field("alive", "yes, a call that has to be denied was: "+s.proof.Detail)
		} else {
			p.Field("alive", "NO: "+s.proof.Detail)
		}
		p.Wrapped("strength", s.strength)
		p.List("entry", s.entries)
	}
	var bad, other []string
	for _, f := range s.findings {
		if f.Bad {
			bad = append(bad, f.String())
		} else {
			other = append(other, f.String())
		}
	}
	p.List("can bypass", bad)
	p.List("also", other)
}
