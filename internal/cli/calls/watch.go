package calls

import (
	"cmp"
	"context"
	"sync"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/calls/desktop"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/rpc"
)

func (a *approvalCommands) approvalsWatch() *cobra.Command {
	var cursor string
	var notifying bool
	c := &cobra.Command{
		Use: "watch", Short: "Print approvals as they change, until interrupted", Args: command.Args(0, 0),
		Long: "Print approvals as they change, until interrupted. In a graphical session each\n" +
			"call that becomes pending is also a desktop notification (Linux, macOS): its\n" +
			"summary, with the arguments of the call, visible on the screen. It has no\n" +
			"buttons and decides nothing. --notify=false, PALYRA_NOTIFY=false and\n" +
			"client.notify = false switch it off.",
		Example: "palyra approvals watch\npalyra approvals watch --notify=false -o ndjson",
	}
	flags := c.Flags()
	flags.StringVar(&cursor, "cursor", "", "continue after this cursor of the API method WatchApprovals")
	flags.BoolVar(&notifying, "notify", true, "show desktop notifications of pending calls (PALYRA_NOTIFY); if set, also without a detected graphical session")
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
		if !flags.Changed("notify") {
			notifying = g.Notify && desktop.Here(a.Getenv)
		}
		ring, hush := a.bell(ctx, notifying)
		defer hush()
		return a.watchApprovals(ctx, g, cursor, ring)
	})
	return c
}

// bell starts desktop notifications: ring processes an approval, and hush ends them.
func (a *approvalCommands) bell(ctx context.Context, on bool) (ring func(*palyrav1.Approval), hush func()) {
	screen := desktop.Find(a.Getenv)
	if !on || screen == nil {
		if on {
			a.Say("desktop notifications are not supported on this system")
		}
		return func(*palyrav1.Approval) {}, func() {}
	}
	b := desktop.New(screen, func(err error) {
		if a.ErrTerminal {
			a.Say("showing a desktop notification failed: %v; disable them with --notify=false", err)
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	var ringing sync.WaitGroup
	ringing.Go(func() { b.Run(ctx) })
	return func(v *palyrav1.Approval) {
		b.Saw(v.GetApprovalId(), ask.ApprovalSummary(v), v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING)
	}, func() { cancel(); ringing.Wait() }
}

func (a *approvalCommands) watchApprovals(ctx context.Context, g *client.Gateway, cursor string, ring func(*palyrav1.Approval)) error {
	return client.Watch(ctx, a.App, approvalListing, func() (*rpc.ServerStream[*palyrav1.WatchApprovalsResponse], error) {
		return g.Approvals.WatchApprovals(ctx, &palyrav1.WatchApprovalsRequest{Cursor: cursor})
	}, func(msg *palyrav1.WatchApprovalsResponse) (printer.Record, bool) {
		cursor = cmp.Or(msg.GetCursor(), cursor)
		if msg.GetApproval() == nil {
			return printer.Record{}, false
		}
		ring(msg.GetApproval())
		return approvalRecord(a.App, msg.GetApproval()), true
	})
}
