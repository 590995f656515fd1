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
			"servers themselves. It holds nothing of its own: each message goes to the\n" +
			"gateway over palyra's connection, and its answer comes back.\n\n" +
			"With PALYRA_TOKEN it acts as the agent whose token that is, as every command does, at\n" +
			"the gateway of palyra's credential. Without it, it acts as the holder of that.\n\n" +
			"--call-limit says how long the client waits for a call. A call that a person\n" +
			"has not answered 5 seconds before is told so, and the same call again goes on\n" +
			"with it. Without it the gateway goes by what it knows of the client.",
		Example: "palyra mcp serve\npalyra --credentials ~/.config/palyra/agent mcp serve --call-limit 11m",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			s := newShim(g.HTTP, g.Base+"/mcp", a.Out)
			if limit > 0 {
				s.limit = limit.String()
			}
			return s.serve(ctx, a.In)
		}),
	}
	c.Flags().DurationVar(&limit, "call-limit", 0, "how long the client waits for a call, such as 11m")
	return c
}
