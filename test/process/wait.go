package process

import (
	"context"
	"testing"
	"time"
)

// Patience bounds every wait of these tests. Nothing sleeps for a fixed time:
// each wait ends as soon as what it waits for is there, so that the bound only
// says when to give up, on the slowest machine as well.
const Patience = 2 * time.Minute

// Eventually polls until ok, which returns what it saw for the message of a
// failure.
func Eventually(t *testing.T, what string, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, saw := ok()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s; last seen: %s", within, what, saw)
		case <-tick.C:
		}
	}
}
