package people

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/browser"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// consoleCommands provides the commands of this family.
type consoleCommands struct{ *client.App }

// ConsoleCommand is `palyra console`.
func ConsoleCommand(program *client.App) *cobra.Command {
	a := &consoleCommands{program}
	noBrowser := false
	c := &cobra.Command{
		Use: "console", Short: "Open the web console of the gateway, logged in", Args: command.Args(0, 0),
		Long: "Open the web console of the gateway in a browser on this machine, logged in as you.\n\n" +
			"The link is valid once and for a minute. It is not in the arguments of the browser, which\n" +
			"other users of this machine can see, but in a private page that is removed once\n" +
			"you are logged in. With --no-browser the link is printed, to be opened manually: over SSH,\n" +
			"forward the port of the console first (ssh -L 7145:127.0.0.1:7145 HOST).\n\n" +
			"A session ends when you log out, when it is idle or revoked, with the\n" +
			"device that created it, and when palyrad stops.",
		Example: "palyra console\npalyra console --no-browser\npalyra console sessions",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			link, err := g.Console.CreateConsoleLogin(ctx, &palyrav1.CreateConsoleLoginRequest{})
			if err != nil {
				return err
			}
			if noBrowser {
				return a.printLink(link)
			}
			return a.open(ctx, g, link)
		}),
	}
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "print the link instead of opening a browser")
	c.AddCommand(a.sessions(), a.revoke())
	return c
}

func (a *consoleCommands) printLink(link *palyrav1.CreateConsoleLoginResponse) error {
	a.Say("opening this link logs in as you; it is valid once, until %s", a.Moment(link.GetExpiresAt()))
	return a.PrintOne("ConsoleLogin", printer.Record{Name: link.GetUrl(), Body: printer.ProtoObject(link)}, func(p *printer.Page) {
		p.Line(link.GetUrl())
	})
}

// open passes the link to a browser, and keeps the page with it until the login has completed.
func (a *consoleCommands) open(ctx context.Context, g *client.Gateway, link *palyrav1.CreateConsoleLoginResponse) error {
	page, err := browser.Write(browser.Dir(a.App), link.GetUrl())
	if err != nil {
		return err
	}
	defer page.Remove()
	if err := page.Open(ctx); err != nil {
		a.Say("starting a browser failed: %v", err)
		return a.printLink(link)
	}
	a.Say("opening the console in a browser ... (if none appears: palyra console --no-browser)")
	s, err := browser.Await(ctx, a.App, g, link)
	if err != nil {
		return err
	}
	return a.show(s, "logged in until")
}

func (a *consoleCommands) show(s *palyrav1.ConsoleSession, until string) error {
	return a.PrintOne("ConsoleSession", consoleRecord(s), func(p *printer.Page) {
		p.Field("session", s.GetSessionId())
		p.Field("member", s.GetPrincipal())
		p.Field("device", s.GetDeviceId())
		p.Field("from", s.GetAddress())
		p.Field("browser", s.GetUserAgent())
		p.Field("began", a.Moment(s.GetCreatedAt()))
		p.Field(until, a.Moment(s.GetEndsAt()))
	})
}

var consoleListing = printer.Listing{
	Kind:    "ConsoleSession",
	Columns: []string{"ID", "MEMBER", "FROM", "LAST USED", "ENDS", "BROWSER"},
	Wide:    []string{"DEVICE", "BEGAN", "ENDS UNUSED"},
	Empty:   "no sessions of the console",
	Drop:    []string{"BROWSER", "FROM", "LAST USED"},
}

func consoleRecord(s *palyrav1.ConsoleSession) printer.Record {
	return printer.Record{
		Name: s.GetSessionId(), Body: printer.ProtoObject(s),
		Cells: []string{s.GetSessionId(), s.GetPrincipal(), s.GetAddress(), printer.Clock(s.GetLastUsedAt()), printer.Clock(s.GetEndsAt()), s.GetUserAgent()},
		Wide:  []string{s.GetDeviceId(), printer.Clock(s.GetCreatedAt()), printer.Clock(s.GetIdleAt())},
	}
}

func (a *consoleCommands) sessions() *cobra.Command {
	return &cobra.Command{
		Use: "sessions", Short: "List the sessions of the console: yours, or all if you may see members", Args: command.Args(0, 0),
		Example: "palyra console sessions",
		RunE:    client.ShowList(a.App, consoleListing, consoleRecord, sessionsOf),
	}
}

func (a *consoleCommands) revoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a console session with its open streams", Args: command.Args(1, 1),
		Example:           "palyra console revoke 01J...",
		ValidArgsFunction: client.Suggest(a.App, sessionsOf, func(s *palyrav1.ConsoleSession) (string, string) { return s.GetSessionId(), s.GetPrincipal() }),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			pages := func(int32) ([]*palyrav1.ConsoleSession, bool, error) {
				list, err := sessionsOf(ctx, g)
				return list, false, err
			}
			id, err := client.FindListed("session", given[0], pages, (*palyrav1.ConsoleSession).GetSessionId)
			if err != nil {
				return err
			}
			reply, err := g.Console.RevokeConsoleSession(ctx, &palyrav1.RevokeConsoleSessionRequest{SessionId: id})
			if err != nil {
				return err
			}
			return a.show(reply.GetSession(), "would have ended")
		}),
	}
}

func sessionsOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.ConsoleSession, error) {
	reply, err := g.Console.ListConsoleSessions(ctx, &palyrav1.ListConsoleSessionsRequest{})
	return reply.GetSessions(), err
}
