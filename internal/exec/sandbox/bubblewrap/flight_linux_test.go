package bubblewrap

import (
	"os"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestDescriptorsInFlight: while a program of the user has 1,250 descriptors in flight, or as many
// as the kernel permits, every other sandbox of that user runs, with and without allowed hosts,
// prepared or not.
func TestDescriptorsInFlight(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the descriptors would affect all tests of this user; only root starts a process of another one")
	}
	needs.Sandbox(t)
	for i, sandboxed := range []bool{true, false} {
		attr := jailtest.FlightUser(1 + i)
		spec := jailtest.Shell(t, jailtest.Workspace(t), `test "$(cat)" = input`)
		o := jailtest.FlightOrder{Spec: spec, Runs: 20}
		o.Spec.Workspace = sandbox.ReadOnly
		if sandboxed {
			hold := jailtest.Spec(t, spec.WorkspaceRoot, jailtest.HoldArgv()...)
			hold.Workspace = sandbox.ReadOnly
			o.Hold = &hold
		}
		cmd := jailtest.Again(t, jailtest.FlightSpec, o)
		jailtest.OpenPath(t, spec.WorkspaceRoot)
		must.Do(t, jailtest.OwnTree(spec.WorkspaceRoot, attr))
		cmd.SysProcAttr = attr
		var f jailtest.Flight
		jailtest.Answer(t, cmd, &f)
		if f.Ran != o.Runs {
			t.Errorf("a sandboxed holder %t: %d of %d sandboxes ran: %s", sandboxed, f.Ran, o.Runs, f.Errors)
		}
		// Control: no other descriptor of the user can be in flight, in a sandbox or outside.
		if want := "1250 Too many references: cannot splice\n"; !f.Refused || sandboxed && f.Holder != want {
			t.Errorf("a sandboxed holder %t: it printed %q; the kernel refuses this process %t", sandboxed, f.Holder, f.Refused)
		}
	}
}
