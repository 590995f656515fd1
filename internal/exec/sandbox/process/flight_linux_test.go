package process

import (
	"os"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestDescriptorsInFlight: while a sandboxed program of the user has 1,250 descriptors in flight,
// every other sandbox of that user runs, with and without allowed hosts.
func TestDescriptorsInFlight(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the descriptors would affect all tests of this user; only root starts a process of another one")
	}
	needs.Programs(t)
	attr := jailtest.FlightUser(3)
	spec := jailtest.Shell(t, jailtest.Workspace(t), `test "$(cat)" = input`)
	hold := jailtest.Spec(t, spec.WorkspaceRoot, jailtest.HoldArgv()...)
	o := jailtest.FlightOrder{Hold: &hold, Spec: spec, Runs: 20}
	o.Spec.Workspace, o.Hold.Workspace = sandbox.ReadOnly, sandbox.ReadOnly
	cmd := jailtest.Again(t, jailtest.FlightSpec, o)
	jailtest.OpenPath(t, spec.WorkspaceRoot)
	must.Do(t, jailtest.OwnTree(spec.WorkspaceRoot, attr))
	cmd.SysProcAttr = attr
	var f jailtest.Flight
	jailtest.Answer(t, cmd, &f)
	if f.Ran != o.Runs {
		t.Errorf("%d of %d sandboxes ran: %s", f.Ran, o.Runs, f.Errors)
	}
	// Control: no other descriptor of the user can be in flight, in a sandbox or outside.
	if want := "1250 Too many references: cannot splice\n"; !f.Refused || f.Holder != want {
		t.Errorf("the holder printed %q; the kernel refuses this process %t", f.Holder, f.Refused)
	}
}
