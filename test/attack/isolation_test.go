//go:build linux

package attack

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// isolationRows are attacks by which one run takes from others more than its share. Each has its
// own test, because the effect is in another run.
func isolationRows() []row {
	const source = "a resource that the kernel counts for all processes of a user"
	return []row{
		{id: "ISO-05", variant: "descriptors in flight", source: source, root: true},
		{id: "ISO-06", variant: "instances of inotify", source: source},
	}
}

// flight runs specs while another one holds descriptors in flight.
type flight struct {
	Hold  sandbox.Spec
	Specs []sandbox.Spec
}

const flightOrder = "TEST_PALYRA_ATTACK_FLIGHT"

// fly is the main function of a process of an ordinary user.
func fly(text string) error {
	var f flight
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return err
	}
	r, err := bubblewrap.New(bubblewrap.Config{Enabled: true})
	if err != nil {
		return err
	}
	ran, err := jailtest.InFlight(r, &f.Hold, f.Specs)
	if err == nil {
		err = r.Close()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(ran)
	}
	return err
}

// TestDescriptorsInFlight: a sandboxed program sends descriptors over a socket and never receives
// them, until the kernel refuses its user more (unix(7), ETOOMANYREFS). The other sandboxes of that
// user run all the same. Control: the kernel refuses a process of that user a single descriptor.
func TestDescriptorsInFlight(t *testing.T) {
	t.Parallel()
	if !places.root {
		t.Skip("only root starts palyrad as a user of its own")
	}
	needs.Sandbox(t)
	workspace, user := jailtest.Workspace(t), jailtest.FlightUser(4)
	f := flight{Hold: jailtest.Spec(t, workspace, jailtest.HoldArgv()...)}
	other := jailtest.Shell(t, workspace, "exit 0")
	f.Hold.Workspace, other.Workspace = sandbox.ReadOnly, sandbox.ReadOnly
	f.Specs = slices.Repeat([]sandbox.Spec{other}, 20)
	cmd := jailtest.Again(t, flightOrder, f)
	jailtest.OpenPath(t, workspace)
	must.Do(t, jailtest.OwnTree(workspace, user))
	cmd.SysProcAttr = user
	var ran jailtest.Flight
	jailtest.Answer(t, cmd, &ran)
	record(t, "ISO-05 descriptors in flight", ran.Ran != len(f.Specs), ran.Refused && strings.Contains(ran.Holder, "Too many references"),
		fmt.Sprintf("%d of %d ran, the holder printed %q: %s", ran.Ran, len(f.Specs), ran.Holder, ran.Errors))
}

// TestInstancesOfInotify: a program creates instances of inotify until the kernel refuses one.
// Another program can still create some. Control: the first one was refused.
func TestInstancesOfInotify(t *testing.T) {
	t.Parallel()
	b := newBoundary(t)
	r := b.runner(t, nil)
	const hold = `import ctypes, signal
libc, n = ctypes.CDLL(None, use_errno=True), 0
while libc.inotify_init1(0) >= 0:
    n += 1
print(n, ctypes.get_errno(), flush=True)
signal.pause()
`
	workspace := jailtest.Workspace(t)
	s := jailtest.Spec(t, workspace, "python3", "-c", hold)
	s.Workspace = sandbox.ReadOnly
	var counts, errno [2]int
	for i := range counts {
		text, end, err := jailtest.Hold(r, s)
		must.Do(t, err)
		defer end()
		must.Get(fmt.Sscan(text, &counts[i], &errno[i]))(t)
	}
	const emfile = 24
	record(t, "ISO-06 instances of inotify", counts[1] == 0, errno[0] == emfile && counts[0] > 0, fmt.Sprintf("the first program has %d, the second %d", counts[0], counts[1]))
}
