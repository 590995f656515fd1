package client

import (
	"testing"
	"time"
)

// TestPatience: the answer is there 5 s before the agent stops waiting, but for the
// second that the gateway gets for its own.
func TestPatience(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{time.Minute: 56 * time.Second, 10 * time.Minute: 596 * time.Second, 4 * time.Second: 3 * time.Second} {
		if got := (&Hook{Limit: limit}).patience(); got != want {
			t.Errorf("%s: %s, want %s", limit, got, want)
		}
	}
}
