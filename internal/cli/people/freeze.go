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
	a := &operateCommands{program}
	var why string
	c := &cobra.Command{Use: "freeze", Short: "Stop all tool calls at once", Args: command.Args(0, 0),
		Long: "Stop all tool calls at once: nothing is dispatched, running sandboxes are\nkilled, grants are suspended. It survives a restart; `palyra thaw` ends it.",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Status.Freeze(ctx, &palyrav1.FreezeRequest{Reason: why})
			if err != nil {
				return err
			}
			return a.PrintOne("Freeze", printer.Record{Name: "frozen", Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
				p.Field("state", "frozen")
				p.Field("stopped", text.Plural(int(reply.GetStopped()), "call"))
				p.Field("reason", reply.GetState().GetReason())
				p.Field("thaw with", "palyra thaw")
			})
		})}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal and for callers")
	return c
}

// ThawCommand is `palyra thaw`.
func ThawCommand(program *client.App) *cobra.Command {
	a := &operateCommands{program}
	return a.Waits(&cobra.Command{Use: "thaw", Short: "Let tool calls go on after a freeze", Args: command.Args(0, 0),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Status.Thaw(ctx, &palyrav1.ThawRequest{})
			if err != nil {
				return err
			}
			state := "ready"
			if reply.GetState().GetFrozen() {
				state = "frozen"
			}
			return a.PrintOne("Thaw", printer.Record{Name: state, Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
				p.Field("state", state)
			})
		})})
}
