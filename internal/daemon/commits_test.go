package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/sqlite"
)

// TestSlowCommitsAreTold once a minute.
func TestSlowCommitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logBook
		c := newCommits(book.logger())
		for _, row := range []struct {
			pause, took time.Duration
			want        int
		}{
			{0, slowCommit - 1, 0}, {0, slowCommit, 1}, {time.Second, 5 * slowCommit, 1}, {slowPause, 2 * slowCommit, 2},
		} {
			time.Sleep(row.pause)
			c.note(sqlite.CommitInfo{Units: 1, Events: 1, Took: row.took})
			if got := book.count("the disk is slow"); got != row.want {
				t.Errorf("after a commit of %v: told %d times, want %d", row.took, got, row.want)
			}
		}
	})
}
