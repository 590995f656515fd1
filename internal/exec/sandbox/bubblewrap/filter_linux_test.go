package bubblewrap

import (
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// bubblewrap installs a filter that allows almost everything. With this filter alone, the
// reported mode is the same as with palyrad's filter.
func TestFinalFilterIsProved(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	for name, machine := range map[string]*jail.Machine{"": r.machine, jail.LayerSeccomp: r.machine.Variant(jail.LayerSeccomp)} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "true")
		s.Limits = s.Limits.OrDefault()
		w := must.Get(jail.OpenWorkspace(s.WorkspaceRoot))(t)
		todo := must.Get(work(s, w, nil))(t)
		plan, err := r.plan(s, w, nil) // the outer filter is always present
		must.Do(t, err)
		cell := must.Get(machine.Start(plan))(t)
		var report sandbox.Report
		if report, err = cell.Run(t.Context(), todo); err != nil {
			t.Error(err)
		}
		must.Check(t, cell.Close())
		i := report.Isolation
		if applied := slices.Contains(report.Applied, jail.LayerSeccomp); i.SeccompMode != 2 || applied != (name == "") || (i.SeccompSHA != "") != applied {
			t.Errorf("without %q: applied %t, mode %d, filter %q", name, applied, i.SeccompMode, i.SeccompSHA)
		}
	}
}
