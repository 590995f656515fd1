package process

import (
	"testing"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestWatchesAreLimited: a run has a quarter of palyrad's instances and watches of inotify, as
// root and as an ordinary user, and cannot raise the limits.
func TestWatchesAreLimited(t *testing.T) {
	t.Parallel()
	s := jailtest.Spec(t, jailtest.Workspace(t), jailtest.WatchArgv()...)
	s.Workspace = sandbox.ReadOnly
	jailtest.CheckWatches(t, jailtest.Output(t, newTestRunner(t), s))
	got := asOrdinary(t, errand{Spec: s, LayerDir: jailtest.Dir(t)})
	if jailtest.CheckWatches(t, string(got.Report.Stdout.Head)); got.Error != "" {
		t.Error(got.Error)
	}
}
