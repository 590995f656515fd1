package things

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/browser"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

func (a *upstreamCommands) login() *cobra.Command {
	return &cobra.Command{
		Use: "login NAME", Short: "Log the gateway in at a server, with a browser on this machine", Args: command.Args(1, 1),
		Long: "Log the gateway in at an upstream server that was added with --oauth. A browser on this\n" +
			"machine shows the page of the server's authorization server; compare its host with the\n" +
			"one that is printed here. The tokens are stored in the vault: they are sent only to the\n" +
			"server, for calls of you and your agents, and are renewed by the gateway. A login\n" +
			"for all members (--oauth-shared) requires the right to add servers.",
		Example: "palyra mcp login linear", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			done, err := a.logIn(ctx, g, given[0])
			if err != nil {
				return err
			}
			rec := printer.Record{Name: given[0], Body: printer.ProtoObject(done)}
			err = a.PrintOne("UpstreamLogin", rec, func(p *printer.Page) {
				p.Field("logged in at", given[0])
				p.Field("by", done.GetIssuer())
				p.Field("may", done.GetScope())
				p.Field("kept as", "vault://"+done.GetSecret())
				if done.GetExpiresAt() != nil && !done.GetRenews() {
					p.Field("ends", a.Moment(done.GetExpiresAt()))
				}
			})
			a.Say("if the server was never reached, an operator can inspect its tools with `palyra mcp refresh %s`", given[0])
			return err
		}),
	}
}

func (a *upstreamCommands) logIn(ctx context.Context, g *client.Gateway, name string) (*palyrav1.CompleteUpstreamLoginResponse, error) {
	l, err := browser.Listen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	begun, err := g.Mcp.BeginUpstreamLogin(ctx, &palyrav1.BeginUpstreamLoginRequest{Name: name, RedirectUri: l.Redirect()})
	if err != nil {
		return nil, err
	}
	a.Say("Open this page in a browser on this machine, and log in; it is for %s:", printer.VisibleLine(begun.GetIssuer()))
	a.Say("  %s", printer.VisibleLine(begun.GetAuthorizationUrl()))
	back, err := l.Await(ctx, begun.GetAuthorizationUrl(), begun.GetExpiresAt().AsTime())
	if err != nil {
		return nil, err
	}
	return g.Mcp.CompleteUpstreamLogin(ctx, &palyrav1.CompleteUpstreamLoginRequest{
		LoginId: begun.GetLoginId(), State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"),
	})
}

func (a *upstreamCommands) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout NAME", Short: "Forget the gateway's login at a server", Args: command.Args(1, 1),
		Long:    "Forget the gateway's login at an upstream server, and have the authorization server end\nit where that can.",
		Example: "palyra mcp logout linear", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if _, err := g.Mcp.EndUpstreamLogin(ctx, &palyrav1.EndUpstreamLoginRequest{Name: given[0]}); err != nil {
				return err
			}
			a.Say("the login at %s was removed", given[0])
			return nil
		}),
	}
}
