// Package setup has the commands for setup and removal. `palyra up` starts palyrad for a user,
// declares a workspace and installs hooks; `palyra down` removes all of it. It also has the
// commands for hooks and for the configuration of MCP clients.
package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/setup/install"
	"palyra/internal/cli/setup/service"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// upCommands is one run of the program, with the commands of this family.
type upCommands struct {
	*client.App
	// export writes the journal to a new file.
	export func(ctx context.Context, path string) error
}

// owner is the owner of the changes of `palyra up` other than hooks.
const owner = "up"

// upFlags are the flags of `palyra up`.
type upFlags struct {
	sure, preview bool
	service       string
	agents        []string
}

// UpCommand is `palyra up`.
func UpCommand(program *client.App) *cobra.Command {
	a, f := &upCommands{App: program}, &upFlags{}
	c := &cobra.Command{
		Use: "up", Short: "Start palyrad as your service, and connect your agents", Args: command.Args(0, 0),
		Long: "Start palyrad as your service, declare the current directory as a workspace, and write\n" +
			"Palyra's hook into the settings of the agents found here (Claude Code, Codex). It shows\n" +
			"all changes and asks first. Each file keeps its comments and its order; `palyra down`\n" +
			"restores all of them byte for byte.\n\n" +
			"The service is managed by systemd or launchd; without either, palyrad runs detached, with\n" +
			"a pid file and a log. Run it again to add another directory, or after an update.",
		Example: "palyra up\npalyra up --dry-run\npalyra up --yes --agent codex",
	}
	c.Flags().BoolVar(&f.sure, "yes", false, "do not ask")
	c.Flags().BoolVar(&f.preview, "dry-run", false, "show what would be written, and do nothing")
	c.Flags().StringVar(&f.service, "service", "", "systemd, launchd or detached (default: the first that is available)")
	c.Flags().StringSliceVar(&f.agents, "agent", nil, "the agents to connect (default: all that are found), or \"none\"")
	_ = c.RegisterFlagCompletionFunc("service", cobra.FixedCompletions([]string{service.Systemd, service.Launchd, service.Detached}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), f) }
	return c
}

// setup is the plan of `palyra up`.
type setup struct {
	site     install.Site
	book     *install.Book
	config   *config.Config
	path     string
	palyrad  service.Palyrad
	running  int
	dir      string
	name     string
	edits    []*install.Edit
	plans    []*install.Plan
	missing  []string
	restarts bool
}

func (a *upCommands) up(ctx context.Context, f *upFlags) (err error) {
	machine, err := install.MachineOf(a.App)
	if err != nil {
		return err
	}
	book, err := install.Open(machine.ClientState())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	s, err := a.plan(ctx, f, machine, book)
	if err != nil {
		return err
	}
	if err := a.show(s, f.preview); err != nil || f.preview {
		return err
	}
	if err := a.agree(ctx, f.sure); err != nil {
		return err
	}
	if err := a.start(ctx, s); err != nil {
		return err
	}
	return a.installHooks(ctx, s)
}

// agree asks before anything is written.
func (a *upCommands) agree(ctx context.Context, sure bool) error {
	if !sure && !a.Interactive() {
		return command.Usage("this changes settings of agents").WithRemedy("Review it with --dry-run, and repeat the command with --yes.")
	}
	return a.Agree(ctx, sure, "Write this and start palyrad?")
}

// plan determines the necessary steps, and changes nothing.
func (a *upCommands) plan(ctx context.Context, f *upFlags, m files.Machine, book *install.Book) (*setup, error) {
	path, err := a.configPath()
	if err != nil {
		return nil, err
	}
	c, _, err := config.Load(a.LoadOptions())
	if err != nil {
		return nil, err
	}
	s := &setup{book: book, config: c, path: path}
	if s.running, err = statedir.HolderPID(c.StateDir); err != nil {
		return nil, err
	}
	manager := f.service
	switch {
	case manager != "":
	case book.Service != nil:
		manager = book.Service.Manager
	default:
		manager = service.Detect(ctx, m)
	}
	if !slices.Contains([]string{service.Systemd, service.Launchd, service.Detached}, manager) {
		return nil, command.Usage("--service %q: want systemd, launchd or detached", manager)
	}
	if book.Service != nil && book.Service.Manager != manager {
		return nil, command.Usage("palyrad is a service of %s already", book.Service.Manager).WithRemedy("Run `palyra down` first.")
	}
	if c.Listen.Agents == "" {
		if c.Listen.Agents, err = freePort(c.Listen); err != nil {
			return nil, err
		}
	}
	program := install.Beside("palyrad")
	if program == "" {
		return nil, reason.Errorf(reason.NotFound, "palyrad is neither next to palyra nor in the PATH").WithRemedy("Install it next to palyra, and run this again.")
	}
	s.palyrad = service.Palyrad{
		Machine: m, Manager: manager, Program: program, Config: path, Agents: c.Listen.Agents,
		StateDir: c.StateDir, RunDir: filepath.Join(m.ClientState(), "run"), UID: os.Getuid(),
	}
	if err := s.planFiles(m); err != nil {
		return nil, err
	}
	record := book.Record
	record.Service = &install.Service{Manager: manager}
	if s.foreign() {
		record.Service = nil
	}
	s.site = install.SiteOf(a.App, m, c, &record)
	return s, s.planHooks(ctx, f)
}

// foreign reports whether the running palyrad was not started by `palyra up`: it is used unchanged.
func (s *setup) foreign() bool { return s.running != 0 && s.book.Service == nil }

// configPath returns the path of the configuration file, which need not exist.
func (a *upCommands) configPath() (string, error) {
	path, _ := config.Path(a.LoadOptions())
	if path == "" {
		return "", reason.Errorf(reason.ConfigInvalid, "palyra.toml has no place").WithRemedy("Set HOME.")
	}
	return filepath.Abs(path)
}

// firstPort is the first port for the listener of agents; lower ports are for palyrad's other
// listeners.
const firstPort, ports = 7145 + 1, 20

// freePort returns a free address for agents that does not conflict with palyrad's other listeners.
// It is outside of the system's ephemeral range, so that it stays free.
func freePort(own config.Listen) (string, error) {
	for port := firstPort; port < firstPort+ports; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if onPort(port, own.API, own.Metrics, own.Console) {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		return address, l.Close()
	}
	return "", reason.Errorf(reason.ConfigInvalid, "no port from %d to %d is free on 127.0.0.1", firstPort, firstPort+ports-1).
		WithRemedy("Set listen.agents in palyra.toml to an address that is.")
}

// onPort reports whether one of the addresses has a port, on any host.
func onPort(port int, addresses ...string) bool {
	for _, address := range addresses {
		if _, taken, err := net.SplitHostPort(address); err == nil && taken == strconv.Itoa(port) {
			return true
		}
	}
	return false
}

// planFiles plans the configuration and the service's files.
func (s *setup) planFiles(m files.Machine) error {
	e, err := install.Begin(owner, s.path, rootOf(s.path, m.Home))
	if err != nil {
		return err
	}
	if err := s.declare(e, m.Home); err != nil {
		return err
	}
	if err := e.SetTOMLIfMissing(s.config.Listen.Agents, "listen", "agents"); err != nil {
		return err
	}
	s.edits = append(s.edits, e)
	s.restarts = e.Changes()
	if s.foreign() {
		return nil
	}
	files, err := s.palyrad.Files()
	if err != nil {
		return err
	}
	for _, file := range files {
		unit, err := install.Begin(owner, file.Path, rootOf(file.Path, m.Home))
		if err != nil {
			return err
		}
		unit.After, unit.Whole, unit.Mode = []byte(file.Text), true, 0o644
		s.edits = append(s.edits, unit)
	}
	return nil
}

// rootOf returns the directory that an edit of a file must not leave.
func rootOf(path, home string) string {
	if strings.HasPrefix(path, home+string(filepath.Separator)) {
		return home
	}
	return filepath.Dir(path)
}

// planHooks plans the hooks of the agents on this machine.
func (s *setup) planHooks(ctx context.Context, f *upFlags) error {
	for _, name := range f.agents {
		if name != "none" && !slices.Contains(files.Hooked, files.Agent(name)) {
			return command.Usage("--agent %q: want claude-code, codex or none", name)
		}
	}
	for _, agent := range files.Hooked {
		named := slices.Contains(f.agents, string(agent))
		if len(f.agents) > 0 && !named || len(f.agents) == 0 && !s.found(agent) {
			continue
		}
		p, err := s.site.Plan(ctx, install.Wanted{Agent: agent, Scope: files.User}, "")
		if err != nil && named {
			return err
		}
		if err != nil {
			s.missing = append(s.missing, fmt.Sprintf("%s does not ask: %v", agent.Title(), err))
			continue
		}
		s.plans = append(s.plans, p)
	}
	return nil
}

// found reports whether this user uses an agent: its program is in the PATH, or it has files.
func (s *setup) found(agent files.Agent) bool {
	if install.InPath(agent) {
		return true
	}
	dir := s.site.ClaudeDir()
	if agent == files.Codex {
		dir = s.site.CodexDir()
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// show prints the plan.
func (a *upCommands) show(s *setup, preview bool) error {
	var files []printer.Object
	edits := slices.Clone(s.edits)
	for _, p := range s.plans {
		edits = append(edits, p.Edits...)
	}
	for _, e := range edits {
		if e.Changes() {
			files = append(files, e.Record())
		}
	}
	page := func(p *printer.Page) {
		switch {
		case s.foreign():
			p.Field("palyrad", fmt.Sprintf("runs already (process %d), and is used as it is", s.running))
		case s.palyrad.Manager == service.Detached:
			p.Field("palyrad", "runs detached, because no service manager was found: its log is "+s.palyrad.Log())
		default:
			p.Field("palyrad", "a service of yours, by "+s.palyrad.Manager)
		}
		if s.name != "" {
			p.Field("workspace", s.name+"  "+s.dir)
		}
		for _, e := range s.edits {
			if e.Changes() {
				p.Diff(e.File.Path, e.Diff())
			}
		}
		for _, plan := range s.plans {
			p.Field("agent", plan.Hook.Agent.Title()+" asks by "+plan.Hook.Transport)
			plan.Show(p)
		}
		p.List("note", s.missing)
	}
	if preview {
		var agents []string
		for _, p := range s.plans {
			agents = append(agents, string(p.Hook.Agent))
		}
		body := printer.Object{{Name: "service", Value: s.palyrad.Manager}, {Name: "workspace", Value: s.dir}, {Name: "agents", Value: agents}, {Name: "files", Value: files}, {Name: "notes", Value: s.missing}}
		return a.PrintOne("UpPlan", printer.Record{Name: "up", Body: body}, page)
	}
	p := &printer.Page{Style: a.ErrStyle()}
	page(p)
	_, err := fmt.Fprint(a.Err, p.String())
	return err
}

// start writes the configuration and the service, and starts palyrad.
func (a *upCommands) start(ctx context.Context, s *setup) error {
	if !s.foreign() {
		// The service is recorded first, so that `palyra down` can always stop it.
		s.book.Service = &install.Service{Manager: s.palyrad.Manager, Program: s.palyrad.Program, Run: s.palyrad.RunDir}
		if err := s.book.Step("noted the service", s.book.Save); err != nil {
			return err
		}
		for _, dir := range append(s.palyrad.Dirs(), s.palyrad.RunDir) {
			if err := s.book.MakeDirs(dir); err != nil {
				return err
			}
		}
	}
	changed := false
	for _, e := range s.edits {
		changed = changed || e.Changes()
		if err := s.book.Apply(e); err != nil {
			return err
		}
	}
	switch {
	case s.foreign():
		if s.restarts {
			a.Say("restart palyrad: until then it does not know what %s has now", s.path)
		}
		return nil
	case s.running != 0 && !changed:
		return nil
	}
	a.Say("starting palyrad ...")
	if err := s.book.Step("started palyrad", func() error { return s.palyrad.Start(ctx) }); err != nil {
		return err
	}
	return a.ready(ctx, s)
}

// readyTime is how long palyrad may take to be ready: its first start creates keys.
const readyTime = time.Minute

// goneTime is how long the state directory must be unlocked before a started palyrad counts as
// ended.
const goneTime = 5 * time.Second

// ready waits until palyrad answers. It stops waiting if palyrad ended at its start.
func (a *upCommands) ready(ctx context.Context, s *setup) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	seen := time.Now()
	for {
		g, err := a.Connect(ctx)
		if err == nil {
			if _, err = g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{}); err == nil {
				return nil
			}
		}
		if pid, held := statedir.HolderPID(s.palyrad.StateDir); pid != 0 || held != nil {
			seen = time.Now()
		}
		if time.Since(seen) > goneTime {
			return reason.Errorf(reason.NotConnected, "palyrad ended at its start%s", s.palyrad.LastWords()).
				WithRemedy("See %s; correct it and run `palyra up` again, or undo the setup with `palyra down`.", s.palyrad.LogHint())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return reason.Errorf(reason.NotConnected, "palyrad was not ready within %s: %w", readyTime, client.Explain(nil, err)).
				WithRemedy("See %s. `palyra down` undoes the setup.", s.palyrad.LogHint())
		}
	}
}

// installHooks installs the hooks, and prints where to answer approvals.
func (a *upCommands) installHooks(ctx context.Context, s *setup) error {
	var g *client.Gateway
	if !s.foreign() || len(s.plans) > 0 {
		var err error
		if g, err = a.Connect(ctx); err != nil {
			return err
		}
	}
	i := &install.Installer{Site: s.site, Book: s.book, Gateway: g}
	var wrote, agents []string
	failed := s.missing
	for _, p := range s.plans {
		done, err := i.Install(ctx, install.Wanted{Agent: p.Hook.Agent, Scope: p.Hook.Scope})
		if err != nil {
			return err
		}
		agents = append(agents, p.Hook.Agent.Title()+", by "+done.Hook.Transport)
		wrote = append(wrote, done.Files...)
	}
	body := printer.Object{{Name: "service", Value: s.palyrad.Manager}, {Name: "agents", Value: agents}, {Name: "workspace", Value: s.dir}, {Name: "files", Value: wrote}, {Name: "notes", Value: failed}}
	return a.PrintOne("Up", printer.Record{Name: "up", Body: body}, func(p *printer.Page) {
		p.List("asks", agents)
		p.List("note", failed)
		p.Field("answer", "palyra approvals watch    (or: palyra approvals list, palyra approve ID)")
		p.Field("prove", "palyra hook status")
		p.Field("undo", "palyra down")
		p.Field("until then", "an agent that runs as your user can answer its own asks until presence is set up: `palyra key presence --passphrase`")
		p.Field("stronger", "palyrad under a uid of its own, which no program of yours can reach: `sudo systemctl enable --now palyrad` (docs/operations.md)")
		if !s.foreign() && s.palyrad.Manager == service.Detached {
			p.Field("after a boot", "palyrad does not start by itself: run `palyra up` again. Until it runs, the agents run no tool")
		}
	})
}
