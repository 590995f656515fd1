package process

import (
	"os"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// helperProgram is palyra-init, built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) {
	if os.Getenv(childErrand) != "" {
		os.Exit(childMain())
	}
	if os.Getenv(jailtest.FlightSpec) != "" {
		os.Exit(jailtest.FlightMain(func(helper []byte) (jailtest.ClosingRunner, error) { return newRunner(Config{Enabled: true}, helper) }))
	}
	os.Exit(jailtest.Main(m, &helperProgram))
}

// newTestRunner fails with the next step if the best rung is not available. A skipped test must
// not look like a passed one.
func newTestRunner(t testing.TB, leaveOut ...string) *Runner {
	t.Helper()
	needs.Programs(t)
	r, err := newRunner(Config{Enabled: true, LayerDir: jailtest.Dir(t), QuarantineDir: jailtest.Dir(t), Without: leaveOut}, helperProgram)
	return checked(t, r, err)
}

// grouped reports whether this test's user can create control groups. Otherwise the lower rung
// refuses to run anything, and its tests are skipped.
func grouped() bool {
	tree := cgroup.Find()
	defer tree.Close()
	return tree.Level() != cgroup.Rlimit
}

// newAloneRunner is the result of newRunner without user namespaces.
func newAloneRunner(t testing.TB, leaveOut ...string) *Runner {
	t.Helper()
	needs.Programs(t)
	if !grouped() {
		leaveOut = append(leaveOut, jail.LayerGroup)
	}
	r := &Runner{
		cfg:  Config{Enabled: true, Lowest: sandbox.Landlocked, LayerDir: jailtest.Dir(t), QuarantineDir: jailtest.Dir(t), Without: leaveOut},
		lack: "this test has none",
	}
	err := r.open(sandbox.Landlocked, helperProgram)
	if err == nil {
		r.problem = r.checkAlone()
	}
	return checked(t, r, err)
}

func checked(t testing.TB, r *Runner, err error) *Runner {
	t.Helper()
	must.Do(t, err)
	if r.problem != nil {
		t.Fatalf("%s: %s", r.problem.Message, r.problem.NextStep())
	}
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return r
}

// openWorkspace returns a workspace that others may write to, because without mounts the program
// of a daemon that is root runs as another user.
func openWorkspace(t testing.TB) string {
	t.Helper()
	root := jailtest.Workspace(t)
	must.Do(t, os.Chmod(root, 0o777))
	jailtest.OpenPath(t, root)
	return root
}
