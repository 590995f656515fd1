package browser

import (
	"context"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
)

// LookInterval is the polling interval for the result of a page.
const LookInterval = 500 * time.Millisecond

// Await waits until the link is opened, and returns the session. The error is LOGIN_REFUSED when
// the link is no longer valid.
func Await(ctx context.Context, a *client.App, g *client.Gateway, link *palyrav1.CreateConsoleLoginResponse) (*palyrav1.ConsoleSession, error) {
	ctx, cancel := context.WithTimeout(ctx, link.GetExpiresAt().AsTime().Sub(a.Now()))
	defer cancel()
	tick := time.NewTicker(LookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, reason.Errorf(reason.LoginRefused, "no browser opened the console in time").
				WithRemedy("Repeat the command with --no-browser, and open the link manually.")
		case <-tick.C:
		}
		reply, err := g.Console.ListConsoleSessions(ctx, &palyrav1.ListConsoleSessionsRequest{})
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		for _, s := range reply.GetSessions() {
			if s.GetLoginId() == link.GetLoginId() {
				return s, nil
			}
		}
	}
}
