package progress_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/progress"
)

// TestWatch: no count is reported before Patience is over, then one count per interval, and
// none after the end.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes time.Duration
		want  []progress.Count
	}{
		{progress.Patience - time.Millisecond, nil},
		{progress.Patience + time.Millisecond, []progress.Count{{Done: 7, Total: 10}}},
		{progress.Patience + 2*time.Second + time.Millisecond, []progress.Count{{Done: 7, Total: 10}, {Done: 7, Total: 10}, {Done: 7, Total: 10}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told []progress.Count
			m := progress.From(progress.With(t.Context(), &progress.Meter{}))
			m.Add(99) // of earlier work
			m.Expect(10)
			stop := m.Watch(time.Second, func(n progress.Count) { told = append(told, n) })
			m.Add(3)
			m.Add(4)
			time.Sleep(c.takes)
			stop()
			time.Sleep(time.Minute)
			if !slices.Equal(told, c.want) {
				t.Errorf("after %s: %v, want %v", c.takes, told, c.want)
			}
		})
	}
}

// TestWithoutWatcher: work counts its progress whether or not a watcher exists.
func TestWithoutWatcher(t *testing.T) {
	t.Parallel()
	m := progress.From(t.Context())
	m.Expect(5)
	m.Add(1)
	if got := m.Count(); m != nil || got != (progress.Count{}) {
		t.Errorf("counted %v without a meter", got)
	}
}
