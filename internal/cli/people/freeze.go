package people

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// FreezeCommand is `palyra freeze`.
func FreezeCommand(program *client.App) *cobra.Command {
	a := &statusCommands{program}
	var why string
	c := &cobra.Command{Use: "freeze", Short: "Stop all tool calls at once", Args: command.Args(0, 0),
		Long: "Stop all tool calls at once: nothing is dispatched, running sandboxes are\nkilled, grants are suspended. It survives a restart; `palyra thaw` ends it.",
		RunE: client.ShowOne(a.App, "Freeze", printer.Named(func(*palyrav1.FreezeResponse) string { return "frozen" }), func(p *printer.Page, r *palyrav1.FreezeResponse) {
			p.Field("state", "frozen")
			p.Field("stopped", text.Plural(int(r.GetStopped()), "call"))
			p.Field("reason", r.GetState().GetReason())
			p.Field("thaw with", "palyra thaw")
		}, func(ctx context.Context, g *client.Gateway, _ []string) (*palyrav1.FreezeResponse, error) {
			return g.Status.Freeze(ctx, &palyrav1.FreezeRequest{Reason: why})
		})}
	c.Flags().StringVar(&why, "reason", "", "the reason, for the journal and for callers")
	return c
}

// ThawCommand is `palyra thaw`.
func ThawCommand(program *client.App) *cobra.Command {
	a := &statusCommands{program}
	return a.Waits(&cobra.Command{Use: "thaw", Short: "Resume tool calls after a freeze", Args: command.Args(0, 0),
		RunE: client.ShowOne(a.App, "Thaw", printer.Named(thawState), func(p *printer.Page, r *palyrav1.ThawResponse) {
			p.Field("state", thawState(r))
		}, func(ctx context.Context, g *client.Gateway, _ []string) (*palyrav1.ThawResponse, error) {
			return g.Status.Thaw(ctx, &palyrav1.ThawRequest{})
		})})
}

func thawState(r *palyrav1.ThawResponse) string {
	if r.GetState().GetFrozen() {
		return "frozen"
	}
	return "ready"
}
