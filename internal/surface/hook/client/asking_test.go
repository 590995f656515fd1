package client

import (
	"testing"
	"time"
)

// TestDeadlines: the answer arrives 5 s before the agent's timeout, plus the second that the
// gateway needs for its own answer.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{time.Minute: 56 * time.Second, 10 * time.Minute: 596 * time.Second, 4 * time.Second: 3 * time.Second} {
		if got := (&Hook{Limit: limit}).patience(); got != want {
			t.Errorf("%s: %s, want %s", limit, got, want)
		}
	}
}
