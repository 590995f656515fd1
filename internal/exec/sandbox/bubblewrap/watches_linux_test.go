package bubblewrap

import (
	"testing"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestWatchesAreLimited: a run has a quarter of palyrad's instances and watches of inotify, as
// root and as an ordinary user, and cannot raise the limits.
func TestWatchesAreLimited(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.CopyOnWrite} {
		root := jailtest.Workspace(t)
		s := jailtest.Spec(t, root, jailtest.WatchArgv()...)
		s.Workspace = mode
		jailtest.CheckWatches(t, jailtest.Output(t, r, s))
		got := asUser(t, root, s)
		if jailtest.CheckWatches(t, string(got.Report.Stdout.Head)); got.Error != "" {
			t.Errorf("%s: %s", mode, got.Error)
		}
	}
}
