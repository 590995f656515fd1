package calls

import (
	"cmp"
	"context"
	"sync"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/calls/desktop"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

func (a *approvalCommands) approvalsWatch() *cobra.Command {
	var cursor string
	var notifying bool
	c := &cobra.Command{
		Use: "watch", Short: "Print approvals as they change, until interrupted", Args: command.Args(0, 0),
		Long: "Print approvals as they change, until interrupted. In a graphical session each\n" +
			"call that begins to wait is also a desktop notification (Linux, macOS): its\n" +
			"summary, with the arguments of the call, for whoever sees the screen. It has no\n" +
			"buttons and decides nothing. --notify=false, PALYRA_NOTIFY=false and\n" +
			"client.notify = false switch it off.",
		Example: "palyra approvals watch\npalyra approvals watch --notify=false -o ndjson",
	}
	flags := c.Flags()
	flags.StringVar(&cursor, "cursor", "", "go on after this cursor, which WatchApprovals of the API gave")
	flags.BoolVar(&notifying, "notify", true, "notify the desktop of calls that begin to wait (PALYRA_NOTIFY); given, also where no graphical session is seen")
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

// bell starts what notifies the desktop: ring tells it of an approval, and hush
// ends it.
func (a *approvalCommands) bell(ctx context.Context, on bool) (ring func(*palyrav1.Approval), hush func()) {
	screen := desktop.Find(a.Getenv)
	if !on || screen == nil {
		if on {
			a.Say("this system has no desktop notifications that palyra knows")
		}
		return func(*palyrav1.Approval) {}, func() {}
	}
	b := desktop.New(screen, func(err error) {
		if a.ErrTerminal {
			a.Say("the desktop shows no notification: %v; --notify=false does without", err)
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
	return client.Watch(ctx, a.App, approvalListing, func() (*connect.ServerStreamForClient[palyrav1.WatchApprovalsResponse], error) {
		return g.Approvals.WatchApprovals(ctx, &palyrav1.WatchApprovalsRequest{Cursor: cursor})
	}, func(msg *palyrav1.WatchApprovalsResponse) (printer.Record, bool) {
		cursor = cmp.Or(msg.GetCursor(), cursor)
		if msg.GetApproval() == nil {
			return printer.Record{}, false
		}
		ring(msg.GetApproval())
		return a.approvalRecord(msg.GetApproval()), true
	})
}
