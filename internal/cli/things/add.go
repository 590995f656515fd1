package things

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
)

func (a *upstreamCommands) add() *cobra.Command {
	s := &palyrav1.UpstreamServer{}
	var headers []string
	var oauth bool
	var from registry
	login := &palyrav1.UpstreamOAuth{}
	c := &cobra.Command{
		Use: "add NAME [--url URL] [-- COMMAND ARG...]", Short: "Add a server: a program that runs in a sandbox, or a URL", Args: command.Args(1, -1),
		Long: "Add an upstream MCP server. Its tools are called as NAME/TOOL, under policy like any other.\n\n" +
			"A program runs in a sandbox of Tier C: offline unless --host names its destinations,\n" +
			"without a workspace unless --workspace names one, which is read-only unless --write\n" +
			"is given. Its changes then pass the commit gate at the end of each call.\n\n" +
			"A package of npx, bunx, uvx or pipx is resolved once, pinned by version and digest, and\n" +
			"installed after approval, into a directory that only its sandbox can access, and\n" +
			"reads only. `palyra mcp update` installs another version.\n\n" +
			"Secrets stay in the vault: --secret lends one to the program for its hosts while a call\n" +
			"runs, by a placeholder; --header fills a header of the requests to a URL. With --oauth\n" +
			"members log in there with `palyra mcp login`. A program that needs the value itself gets\n" +
			"a secret of --inject as it is, in the variable or file that the secret has in the vault,\n" +
			"while it runs: each such secret needs approval at each start.\n\n" +
			"The server's definitions are pinned at once. If they change later, the\n" +
			"tools concerned are suspended until `palyra mcp approve`. Its annotations, such as that\n" +
			"a tool only reads, count only with --trust.",
		Example: "palyra mcp add files --workspace demo --write -- /usr/local/bin/mcp-files /workspace\n" +
			"palyra mcp add memory -- npx -y @modelcontextprotocol/server-memory\n" +
			"palyra mcp add github --host api.github.com:443 --secret vault://global/github -- github-mcp-server stdio\n" +
			"palyra mcp add signer --inject vault://global/signing -- /usr/local/bin/mcp-signer\n" +
			"palyra mcp add search --url https://mcp.example.org/mcp --header 'Authorization: Bearer vault://global/search'\n" +
			"palyra mcp add linear --url https://mcp.linear.app/mcp --oauth",
		RunE: client.ShowOne(a.App, "Upstream", upstreamRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Upstream, error) {
			s.Name, s.Command = given[0], given[1:]
			if oauth || login.GetIssuer() != "" || login.GetClientId() != "" || login.GetClientSecret() != "" || len(login.GetScopes()) > 0 || login.GetShared() {
				s.Oauth = login
			}
			for _, text := range headers {
				h, err := header(text)
				if err != nil {
					return nil, err
				}
				s.Headers = append(s.Headers, h)
			}
			if err := a.fetched(ctx, g, s, from); err != nil {
				return nil, err
			}
			reply, err := g.Mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: s})
			if err != nil {
				return nil, err
			}
			return a.started(ctx, g, reply.GetUpstream())
		}),
	}
	flags := c.Flags()
	flags.StringVar(&s.Url, "url", "", "endpoint of a server that is reached by Streamable HTTP")
	flags.StringArrayVar(&headers, "header", nil, "header with a secret, such as 'Authorization: Bearer vault://global/x'")
	flags.StringArrayVar(&s.Env, "env", nil, "name=value for the program; no place for secrets")
	flags.StringVar(&s.Workspace, "workspace", "", "declared workspace that the program can access")
	flags.BoolVar(&s.Write, "write", false, "let the program write to a copy of the workspace")
	flags.StringSliceVar(&s.Hosts, "host", nil, "host:port that the program may reach")
	flags.StringSliceVar(&s.Secrets, "secret", nil, "secret of the vault that the program may use for its hosts")
	flags.StringSliceVar(&s.Inject, "inject", nil, "secret of the vault that the program receives by value, after approval at its start")
	from.flags(c, "the registry of a package, instead of the one that everybody uses")
	flags.BoolVar(&s.Shared, "shared", false, "one instance for all principals, instead of one for each")
	flags.StringSliceVar(&s.Meta, "meta", nil, "key of _meta that its tools take from callers, as an argument, such as com.example/tenant")
	flags.BoolVar(&s.Trusted, "trust", false, "trust the server's annotations of its tools")
	flags.BoolVar(&oauth, "oauth", false, "the gateway logs in at the URL (palyra mcp login)")
	flags.StringVar(&login.Issuer, "oauth-issuer", "", "authorization server, if it is on another host than the URL")
	flags.StringVar(&login.ClientId, "oauth-client", "", "id of a registered client, or URL of a client metadata document (default: register)")
	flags.StringVar(&login.ClientSecret, "oauth-client-secret", "", "secret of the vault with the client's secret")
	flags.StringSliceVar(&login.Scopes, "oauth-scope", nil, "scope to request (default: the scopes that the server names)")
	flags.BoolVar(&login.Shared, "oauth-shared", false, "one login for everybody, instead of one for each member")
	return c
}

// header reads "Name: [SCHEME] REF".
func header(text string) (*palyrav1.UpstreamHeader, error) {
	name, value, ok := strings.Cut(text, ":")
	words := strings.Fields(value)
	if !ok || len(words) == 0 || len(words) > 2 || !strings.HasPrefix(words[len(words)-1], "vault://") {
		return nil, command.Usage("--header %q is not NAME: [SCHEME] vault://SCOPE/KEY", text).
			WithRemedy("Store the value with `palyra vault put`, and refer to it: --header 'Authorization: Bearer vault://global/x'.")
	}
	h := &palyrav1.UpstreamHeader{Name: strings.TrimSpace(name), Secret: words[len(words)-1]}
	if len(words) == 2 {
		h.Scheme = words[0]
	}
	return h, nil
}
