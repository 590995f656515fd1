package things

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/setup/takeover"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// installTool is the tool that installs a resolved package: a call like any other, subject to
// policy and approval.
const installTool = "package.install"

// registry is the source of a package; the zero value is the public registry.
type registry struct{ url, secret, user string }

func (r *registry) flags(c *cobra.Command, of string) {
	c.Flags().StringVar(&r.url, "registry", "", "URL of "+of)
	c.Flags().StringVar(&r.secret, "registry-secret", "", "secret of the vault for a private registry: a token, or the password of --registry-user")
	c.Flags().StringVar(&r.user, "registry-user", "", "user at a private registry of PyPI")
}

// install resolves a package for a server and installs it.
func (a *upstreamCommands) install(ctx context.Context, g *client.Gateway, server string, f takeover.Fetched, from registry) (takeover.Installed, error) {
	var made takeover.Installed
	a.Say("resolving %s ...", f.Name)
	r, err := g.Mcp.ResolvePackage(ctx, &palyrav1.ResolvePackageRequest{Server: server, Ecosystem: f.Ecosystem, Name: f.Name, Version: f.Version, Registry: from.url, RegistrySecret: from.secret, RegistryUser: from.user})
	if err != nil {
		return made, err
	}
	input, err := json.Marshal(map[string]string{
		"server": server, "resolution": r.GetResolution(), "ecosystem": r.GetEcosystem(), "package": r.GetName(), "version": r.GetVersion(), "integrity": r.GetIntegrity(), "registry": r.GetRegistry(),
	})
	if err != nil {
		return made, err
	}
	a.Say("%s %s of %s, with %s in all", r.GetName(), r.GetVersion(), r.GetRegistry(), text.Plural(r.GetPackages(), "package"))
	result, err := a.call(ctx, g, installTool, input, "installing ...")
	if err != nil {
		return made, err
	}
	return made, json.Unmarshal(result, &made)
}

// fetched installs the package of a server, if its command is npx or similar.
func (a *upstreamCommands) fetched(ctx context.Context, g *client.Gateway, s *palyrav1.UpstreamServer, from registry) error {
	words, why := takeover.Words(s.GetCommand())
	if why != "" {
		return command.Usage("%s", why)
	}
	s.Command = words
	f, why, is := takeover.Fetch(words)
	switch {
	case !is && from != registry{}:
		return command.Usage("--registry is for commands such as npx, bunx, uvx and pipx")
	case !is:
		return nil
	case why != "":
		return command.Usage("%s", why)
	}
	made, err := a.install(ctx, g, s.GetName(), f, from)
	if err != nil {
		return err
	}
	if s.Command, why = f.Started(made.Program, made.Programs); why != "" {
		return command.Usage("%s", why)
	}
	s.Package = made.Declared()
	return nil
}

func (a *upstreamCommands) update() *cobra.Command {
	var from registry
	c := &cobra.Command{
		Use: "update NAME [VERSION]", Short: "Install another version of the package of a server", Args: command.Args(1, 2),
		Long: "Resolve the package of a server again, to its newest version or to VERSION, install it\n" +
			"after approval, and run the server from it. Until then the server\n" +
			"is not changed. If its definitions change, the tools concerned are\n" +
			"suspended until `palyra mcp approve`.",
		Example: "palyra mcp update files\npalyra mcp update files 2025.8.21", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Upstream", upstreamRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Upstream, error) {
			reply, err := g.Mcp.GetUpstream(ctx, &palyrav1.GetUpstreamRequest{Name: given[0]})
			if err != nil {
				return nil, err
			}
			p := reply.GetUpstream().GetServer().GetPackage()
			if p == nil {
				return nil, reason.Errorf(reason.InvalidInput, "the upstream server %s was not installed from a package", given[0]).
					WithRemedy("Update it where it is installed, and then run `palyra mcp refresh %s`.", given[0])
			}
			f := takeover.Fetched{Ecosystem: p.GetEcosystem(), Name: p.GetName()}
			if len(given) > 1 {
				f.Version = given[1]
			}
			if from.url == "" {
				from.url = p.GetRegistry()
			}
			if from.url == p.GetRegistry() && from.secret == "" {
				from.secret, from.user = p.GetRegistrySecret(), p.GetRegistryUser()
			}
			made, err := a.install(ctx, g, given[0], f, from)
			if err != nil {
				return nil, err
			}
			if made.Package.Prefix == p.GetPrefix() {
				a.Say("%s %s is already installed for the server %s", p.GetName(), p.GetVersion(), given[0])
			}
			updated, err := g.Mcp.UpdateUpstream(ctx, &palyrav1.UpdateUpstreamRequest{Name: given[0], Prefix: made.Package.Prefix})
			if err != nil {
				return nil, err
			}
			return a.started(ctx, g, updated.GetUpstream())
		}),
	}
	from.flags(c, "another registry than before")
	return c
}
