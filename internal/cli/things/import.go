package things

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/setup/install"
	"palyra/internal/cli/setup/takeover"
	"palyra/internal/core/reason"
)

// serverImport has the flags of import.
type serverImport struct {
	dry, undo, finish, sure, project bool
	hosts, registries, inject        []string
	secrets, users                   []string
}

func (a *upstreamCommands) importCommand() *cobra.Command {
	var f serverImport
	var names []string
	for _, agent := range files.All {
		names = append(names, string(agent))
	}
	c := &cobra.Command{
		Use: "import [CLIENT...]", Short: "Move the MCP servers of other clients to the gateway", Args: command.Args(0, len(names)), ValidArgs: names,
		Long: "Read the MCP servers in the configuration of Claude Code, Codex, Cursor and VS Code, add\n" +
			"each to the gateway, and remove it from the client's file, whose other content is not\n" +
			"changed. A server that the gateway cannot start or reach stays in the file, and so do\n" +
			"others that cannot be moved; each is listed with the reason. Packages of npx, bunx, uvx\n" +
			"and pipx are installed first, each after approval (`palyra mcp add`). Secrets in variables and headers move to\n" +
			"the vault. A program gets one by a placeholder for the hosts that --host names alone, or\n" +
			"by value with --inject, which needs approval at each start.\n" +
			"Then give the client Palyra's own server: `palyra mcp config CLIENT`.\n\n" +
			"The original files are kept, including their secrets, until --finish. Until then\n" +
			"--undo restores them, and removes the servers and secrets.",
		Example: "palyra mcp import --dry-run\npalyra mcp import claude-code --host github=api.github.com:443\npalyra mcp import --undo\npalyra mcp import --finish",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.take(ctx, g, given, f)
		}),
	}
	flags := c.Flags()
	flags.BoolVar(&f.dry, "dry-run", false, "list what would be moved, and change nothing")
	flags.BoolVar(&f.undo, "undo", false, "put everything back as it was")
	flags.BoolVar(&f.finish, "finish", false, "delete the original files; after that nothing can be undone")
	flags.BoolVar(&f.sure, "yes", false, "do not ask")
	flags.BoolVar(&f.project, "project", false, "also the files of the project in this directory")
	flags.StringSliceVar(&f.registries, "registry", nil, "npm=URL or pypi=URL, instead of the one that everybody uses")
	flags.StringSliceVar(&f.secrets, "registry-secret", nil, "npm=REF or pypi=REF, the secret of the vault for a private registry")
	flags.StringSliceVar(&f.users, "registry-user", nil, "pypi=NAME, the user there")
	flags.StringSliceVar(&f.hosts, "host", nil, "SERVER=HOST:PORT that a program may reach, and its secrets travel to")
	flags.StringSliceVar(&f.inject, "inject", nil, "SERVER whose program receives its secrets by value, after approval of each at its start")
	c.MarkFlagsMutuallyExclusive("dry-run", "undo", "finish")
	return c
}

func (a *upstreamCommands) taker(g *client.Gateway, f serverImport) (*takeover.Taker, error) {
	machine, err := install.MachineOf(a.App)
	if err != nil {
		return nil, err
	}
	through := ofGateway{g: g, a: a}
	if through.registries, err = registriesOf(f); err != nil {
		return nil, err
	}
	t := &takeover.Taker{Machine: machine, Record: filepath.Join(machine.ClientState(), "mcp-import.json"), Gateway: through, Hosts: map[string][]string{}, Inject: f.inject}
	for _, text := range f.hosts {
		name, host, ok := strings.Cut(text, "=")
		if !ok || name == "" || host == "" {
			return nil, command.Usage("--host %q is not SERVER=HOST:PORT", text)
		}
		t.Hosts[name] = append(t.Hosts[name], host)
	}
	return t, nil
}

// registriesOf returns the named registries, by ecosystem.
func registriesOf(f serverImport) (map[string]registry, error) {
	all := map[string]registry{}
	for _, one := range []struct {
		flag  string
		texts []string
		of    func(*registry) *string
	}{
		{"--registry", f.registries, func(r *registry) *string { return &r.url }},
		{"--registry-secret", f.secrets, func(r *registry) *string { return &r.secret }},
		{"--registry-user", f.users, func(r *registry) *string { return &r.user }},
	} {
		for _, text := range one.texts {
			ecosystem, value, ok := strings.Cut(text, "=")
			if !ok || ecosystem != "npm" && ecosystem != "pypi" {
				return nil, command.Usage("%s %q does not begin with npm= or pypi=", one.flag, text)
			}
			r := all[ecosystem]
			*one.of(&r) = value
			all[ecosystem] = r
		}
	}
	return all, nil
}

func (a *upstreamCommands) take(ctx context.Context, g *client.Gateway, given []string, f serverImport) error {
	t, err := a.taker(g, f)
	switch {
	case err != nil:
		return err
	case f.finish:
		if err := a.Confirm(ctx, f.sure, "Delete the original files? After that nothing can be undone."); err != nil {
			return err
		}
		return t.Finish()
	case f.undo:
		files, err := t.Undo(ctx)
		for _, file := range files {
			a.Say("%s was restored", printer.VisibleLine(file))
		}
		return err
	}
	agents, project, err := chosen(given, f.project)
	if err != nil {
		return err
	}
	plan, err := t.Plan(ctx, agents, project)
	if err != nil {
		return err
	}
	if f.dry || !slices.ContainsFunc(plan, func(s takeover.Server) bool { return s.Why == "" }) {
		return a.planned(plan)
	}
	if !f.sure {
		if err := a.planned(plan); err != nil {
			return err
		}
	}
	if err := a.Confirm(ctx, f.sure, "Add the servers without a reason to the gateway, and remove them from these files?"); err != nil {
		return err
	}
	plan, err = t.Take(ctx, plan, project)
	if err != nil {
		return err
	}
	for _, s := range plan {
		if s.Login {
			a.Say("%s requires a login: palyra mcp login %s, then palyra mcp refresh %s", s.Name, s.Name, s.Name)
		}
	}
	return a.planned(plan)
}

// chosen returns the named clients, or all of them, and the directory of the project.
func chosen(given []string, project bool) (agents []files.Agent, dir string, err error) {
	for _, name := range given {
		if !slices.Contains(files.All, files.Agent(name)) {
			return nil, "", command.Usage("the client %q is not supported", name)
		}
		agents = append(agents, files.Agent(name))
	}
	if len(agents) == 0 {
		agents = files.All
	}
	if project {
		dir, err = os.Getwd()
	}
	return agents, dir, err
}

var takings = printer.Listing{
	Kind: "McpImport", Columns: []string{"CLIENT", "SERVER", "AS", "STAYS BECAUSE"}, Wide: []string{"FILE", "PROJECT", "PACKAGE", "SECRETS"}, Empty: "no MCP servers in the files of other clients",
}

func (a *upstreamCommands) planned(plan []takeover.Server) error {
	records := make([]printer.Record, 0, len(plan))
	for _, s := range plan {
		records = append(records, printer.Record{
			Name: cmp.Or(s.Entry, s.File),
			Body: printer.Object{
				{Name: "client", Value: s.Agent}, {Name: "server", Value: s.Entry}, {Name: "name", Value: s.Name}, {Name: "file", Value: s.File}, {Name: "project", Value: s.Project}, {Name: "package", Value: s.Package},
				{Name: "stays_because", Value: s.Why}, {Name: "secrets", Value: s.Secrets}, {Name: "login", Value: s.Login},
			},
			Cells: []string{s.Agent, s.Entry, s.Name, s.Why}, Wide: []string{s.File, s.Project, s.Package, strings.Join(s.Secrets, ", ")},
		})
	}
	return a.PrintList(takings, records)
}

// ofGateway implements takeover.Gateway.
type ofGateway struct {
	g *client.Gateway
	a *upstreamCommands
	// registries has the registries by ecosystem.
	registries map[string]registry
}

func (o ofGateway) Install(ctx context.Context, server string, f takeover.Fetched) (takeover.Installed, error) {
	made, err := o.a.install(ctx, o.g, server, f, o.registries[f.Ecosystem])
	return made, gatewayReason(err)
}

func (o ofGateway) Servers(ctx context.Context) (names []string, err error) {
	reply, err := o.g.Mcp.ListUpstreams(ctx, &palyrav1.ListUpstreamsRequest{})
	for _, u := range reply.GetUpstreams() {
		names = append(names, u.GetServer().GetName())
	}
	return names, gatewayReason(err)
}

func (o ofGateway) Add(ctx context.Context, s *palyrav1.UpstreamServer) (*palyrav1.Upstream, error) {
	reply, err := o.g.Mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: s})
	if err != nil {
		return nil, gatewayReason(err)
	}
	up, err := o.a.started(ctx, o.g, reply.GetUpstream())
	return up, gatewayReason(err)
}

func (o ofGateway) Remove(ctx context.Context, name string) error {
	_, err := o.g.Mcp.RemoveUpstream(ctx, &palyrav1.RemoveUpstreamRequest{Name: name})
	return gatewayReason(err)
}

func (o ofGateway) Has(ctx context.Context, ref string) (bool, error) {
	_, err := o.g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: "vault://" + ref})
	if err = gatewayReason(err); reason.Of(err) == reason.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (o ofGateway) Put(ctx context.Context, req *palyrav1.PutSecretRequest) error {
	req.Ref = "vault://" + req.GetRef()
	_, err := o.g.Vault.PutSecret(ctx, req)
	return gatewayReason(err)
}

func (o ofGateway) Forget(ctx context.Context, ref string) error {
	_, err := o.g.Vault.RemoveSecret(ctx, &palyrav1.RemoveSecretRequest{Ref: "vault://" + ref})
	return gatewayReason(err)
}

// gatewayReason restores the gateway's reason of an error.
func gatewayReason(err error) error {
	if err == nil {
		return nil
	}
	return client.Explain(nil, err)
}
