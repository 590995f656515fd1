package bubblewrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// flightOrder, as JSON in the variable flightSpec, makes this binary run programs while its user
// has too many descriptors in flight.
type flightOrder struct {
	// Hold is the sandboxed program that holds the descriptors, nil if this process holds them.
	Hold *sandbox.Spec
	Spec sandbox.Spec
	Runs int
}

const flightSpec = "TEST_PALYRA_FLIGHT"

func flightMain() int {
	var o flightOrder
	helper, err := jailtest.Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(flightSpec)), &o)); err == nil {
		err = flights(helper, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func flights(helper []byte, o flightOrder) (err error) {
	r, err := newRunner(Config{Enabled: true, Prepared: 1}, helper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	allow, err := egress.ParseRules([]string{"example.com:443"})
	if err != nil {
		return err
	}
	specs := make([]sandbox.Spec, o.Runs)
	for i := range specs {
		specs[i] = o.Spec
		specs[i].Stdin = []byte("input")
		if i%2 == 0 { // with listeners
			specs[i].Network = &egress.Reach{Rules: egress.Rules{Allow: allow}}
		}
	}
	f, err := jailtest.InFlight(r, o.Hold, specs)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f))
}

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
		o := flightOrder{Spec: spec, Runs: 20}
		o.Spec.Workspace = sandbox.ReadOnly
		if sandboxed {
			hold := jailtest.Spec(t, spec.WorkspaceRoot, jailtest.HoldArgv()...)
			hold.Workspace = sandbox.ReadOnly
			o.Hold = &hold
		}
		cmd := jailtest.Again(t, flightSpec, o)
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
