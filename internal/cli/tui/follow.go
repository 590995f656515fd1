package tui

import (
	"cmp"
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
)

// The messages of the stream of changes.
type (
	// openedMsg reports that the stream is open, and changes follow.
	openedMsg struct{}
	// beatMsg is a heartbeat of the gateway.
	beatMsg struct{}
	// changedMsg has an approval in its state after a change.
	changedMsg struct{ approval *palyrav1.Approval }
	// lostMsg reports that the stream broke and is reopened after a pause.
	lostMsg struct{ again time.Duration }
	// endedMsg reports that the stream cannot be reopened.
	endedMsg struct{ err error }
)

// follow sends changes until ctx ends, reconnecting as necessary.
func follow(ctx context.Context, a *client.App, g *client.Gateway, send func(tea.Msg)) {
	cursor := ""
	again := client.Reopening{
		First: a.Retry, Most: 5 * time.Second,
		// The gateway responded before the stream was opened, so it will return.
		Early: func(error) bool { return true },
		Lost:  func(wait time.Duration) { send(lostMsg{wait}) },
	}
	err := again.Follow(ctx, func() (received bool, err error) {
		stream, err := g.Approvals.WatchApprovals(ctx, &palyrav1.WatchApprovalsRequest{Cursor: cursor})
		if err != nil {
			return false, err
		}
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			if !received {
				send(openedMsg{})
			}
			received = true
			cursor = cmp.Or(stream.Msg().GetCursor(), cursor)
			if v := stream.Msg().GetApproval(); v != nil {
				send(changedMsg{v})
			} else {
				send(beatMsg{})
			}
		}
		return received, stream.Err()
	})
	if ctx.Err() == nil {
		send(endedMsg{err})
	}
}
