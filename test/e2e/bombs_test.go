//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
)

// bomb starts up to 990 processes, and then waits.
const bomb = `import os, time
for i in range(990):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(3600)
        os._exit(0)
time.sleep(3600)
`

// eater allocates as much memory as possible.
const eater = `kept = []
while True:
    kept.append(b"x" * (1 << 20))
`

// startIn is startGateway in a service with the given limits.
func startIn(t *testing.T, limits sandbox.Limits, settings ...string) *gateway {
	t.Helper()
	tree := cgroup.Find()
	t.Cleanup(func() { must.Check(t, tree.Close()) })
	if tree.Level() == cgroup.Rlimit {
		t.Skip("this machine lets nobody make control groups with memory and pids; run as root, or in a systemd unit with Delegate=yes")
	}
	service := must.Get(tree.Start(limits))(t)
	t.Cleanup(func() {
		must.Check(t, service.End())
		must.Check(t, service.Close())
	})
	g := newGateway(t, settings...)
	g.policy("10.cedar", waived)
	if dir := service.Dir(); dir != nil {
		g.Wrap = []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir.Name(), "cgroup.procs")}
	}
	runtime.LockOSThread()
	must.Do(t, service.Enter())
	g.Launch()
	must.Do(t, service.Leave())
	runtime.UnlockOSThread()
	if !g.AwaitReady() {
		t.Fatalf("palyrad did not get ready:\n%s", g.Log())
	}
	return g
}

// TestBombsEndThemselves: two programs within their own limits need more processes than
// palyrad's service may have. One of them ends, palyrad keeps running, and another call
// succeeds next to the second. Control: TestBombsTogether of internal/exec/sandbox/bubblewrap,
// which has no group around all programs.
func TestBombsEndThemselves(t *testing.T) {
	t.Parallel()
	g := startIn(t, sandbox.Limits{Processes: 1500, Memory: 4 << 30}, "[process_runner]", "allow_interpreters = true")
	g.file("bomb.py", bomb)
	c := g.local()
	calls := [2]*pending{}
	for i := range calls {
		calls[i] = c.begin("call", "process.run", `argv=["python3","bomb.py"]`, "-o", "json")
	}
	first, second := calls[0], calls[1]
	select {
	case <-first.Ended:
	case <-second.Ended:
		first, second = second, first
	}
	c.ok("call", "process.run", `argv=["true"]`)
	select {
	case <-second.Ended:
		t.Errorf("the second bomb is gone, too: %s%s", second.Out, second.Err)
	default:
	}
	if said := first.wait(); said.Code == 0 || !strings.Contains(said.Out+said.Err, `"processes"`) {
		t.Errorf("the first bomb ended with exit code %d and says nothing of processes: %s%s", said.Code, said.Out, said.Err)
	}
	second.interrupt()
	second.wait()
	g.Stop()
}

// TestMemoryHogEndsItself: a program within its own limit needs more memory than palyrad's
// service may have. The kernel kills it, and other calls succeed meanwhile. Control:
// TestMemoryHogIsEnded of internal/exec/sandbox/bubblewrap, which has no group around all
// programs.
func TestMemoryHogEndsItself(t *testing.T) {
	t.Parallel()
	g := startIn(t, sandbox.Limits{Processes: 1500, Memory: 768 << 20}, "[process_runner]", "allow_interpreters = true", fmt.Sprintf("memory_limit_bytes = %d", 4<<30))
	g.file("eater.py", eater)
	c := g.local()
	eats := c.begin("call", "process.run", `argv=["python3","eater.py"]`, "-o", "json")
	for meanwhile := true; meanwhile; {
		select {
		case <-eats.Ended:
			meanwhile = false
		default:
		}
		c.ok("call", "process.run", `argv=["true"]`)
	}
	if said := eats.wait(); said.Code == 0 || !strings.Contains(said.Out+said.Err, `"memory"`) {
		t.Errorf("the program ended with exit code %d and says nothing of memory: %s%s", said.Code, said.Out, said.Err)
	}
	g.Stop()
	if log := g.Log().String(); !strings.Contains(log, "programs at their limits do not fit in addition to palyrad") {
		t.Errorf("the start does not warn:\n%s", log)
	}
}
