package cli

import (
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

func (a *app) freezeCommand() *cobra.Command {
	var why string
	c := &cobra.Command{Use: "freeze", Short: "Stop all tool calls at once", Args: args(0, 0),
		Long: "Stop all tool calls at once: nothing is dispatched, running sandboxes are\nkilled, grants are suspended. It survives a restart; `palyra thaw` ends it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			reply, err := g.status.Freeze(cmd.Context(), &palyrav1.FreezeRequest{Reason: why})
			if err != nil {
				return err
			}
			return a.printOne("Freeze", record{name: "frozen", body: protoObject(reply)}, func(p *page) {
				p.field("state", "frozen")
				p.field("stopped", plural(int(reply.GetStopped()), "call"))
				p.field("reason", reply.GetState().GetReason())
				p.field("thaw with", "palyra thaw")
			})
		}}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal and for callers")
	return c
}

func (a *app) thawCommand() *cobra.Command {
	return &cobra.Command{Use: "thaw", Short: "Let tool calls go on after a freeze", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			reply, err := g.status.Thaw(cmd.Context(), &palyrav1.ThawRequest{})
			if err != nil {
				return err
			}
			state := "ready"
			if reply.GetState().GetFrozen() {
				state = "frozen"
			}
			return a.printOne("Thaw", record{name: state, body: protoObject(reply)}, func(p *page) {
				p.field("state", state)
			})
		}}
}
