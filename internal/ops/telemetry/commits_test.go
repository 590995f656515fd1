package telemetry

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowCommitsAreReported: slow commits are reported at most once a minute.
func TestSlowCommitsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := NewCommits(slog.New(slog.NewTextHandler(&log, nil)))
		for _, row := range []struct {
			pause, took time.Duration
			want        int
		}{
			{0, slowCommit - 1, 0}, {0, slowCommit, 1}, {time.Second, 5 * slowCommit, 1}, {slowPause, 2 * slowCommit, 2},
		} {
			time.Sleep(row.pause)
			c.Note(row.took, 1)
			if got := strings.Count(log.String(), "the disk is slow"); got != row.want {
				t.Errorf("after a commit of %v: told %d times, want %d", row.took, got, row.want)
			}
		}
	})
}
