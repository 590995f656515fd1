package approval

import (
	"testing"
	"time"
)

// TestClockNeverGoesBack follows the clock through jumps of the wall clock.
func TestClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wall, passed := start, time.Duration(0)
	c := &Clock{wall: func() time.Time { return wall }, passed: func() time.Duration { return passed }, at: start.Add(-time.Hour)}
	for i, step := range []struct {
		wall, passed, want time.Duration
	}{
		{0, 0, 0},
		{time.Minute, time.Minute, time.Minute},
		{-time.Hour, 2 * time.Minute, 2 * time.Minute},
		{-59 * time.Minute, 3 * time.Minute, 3 * time.Minute},
		{24 * time.Hour, 3 * time.Minute, 24 * time.Hour},
		{0, 4 * time.Minute, 24*time.Hour + time.Minute},
	} {
		wall, passed = start.Add(step.wall), step.passed
		if got := c.Now(); !got.Equal(start.Add(step.want)) {
			t.Errorf("step %d: the clock says %v after the start, want %v", i, got.Sub(start), step.want)
		}
	}
}
