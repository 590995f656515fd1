package things

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
)

// ServeCommand is `palyra mcp serve`.
func ServeCommand(a *client.App) *cobra.Command {
	var limit time.Duration
	c := &cobra.Command{
		Use: "serve", Short: "Serve the gateway's tools to an MCP client over standard input and output", Args: command.Args(0, 0),
		Long: "Serves MCP over standard input and output, for clients that start their\n" +
			"servers themselves. It keeps no state: each message is sent to the\n" +
			"gateway over palyra's connection, and its answer is returned.\n\n" +
			"With PALYRA_TOKEN it acts as the agent of the token, like every command, at\n" +
			"the gateway of palyra's credential. Otherwise it acts as the holder of that credential.\n\n" +
			"--call-limit is the client's timeout for a call. A call that is still pending\n" +
			"5 seconds before it returns the error STILL_WAITING, and repeating the call\n" +
			"resumes it. Without it the gateway uses its default for the client.",
		Example: "palyra mcp serve\npalyra --credentials ~/.config/palyra/agent mcp serve --call-limit 11m",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			s := newShim(g.HTTP, g.Base+"/mcp", a.Out)
			if limit > 0 {
				s.limit = limit.String()
			}
			return s.serve(ctx, a.In)
		}),
	}
	c.Flags().DurationVar(&limit, "call-limit", 0, "the client's timeout for a call, such as 11m")
	return c
}
