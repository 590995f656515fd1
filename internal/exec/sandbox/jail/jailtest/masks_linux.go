package jailtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/exec/sandbox"
)

// telling are entries of /proc that disclose information about the host, its keys and the work of
// other programs, or contain its memory. Not every kernel has all of them.
var telling = []string{
	"/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/cmdline", "/proc/kcore", "/proc/sched_debug", "/proc/modules",
	"/proc/interrupts", "/proc/softirqs", "/proc/schedstat", "/proc/iomem", "/proc/ioports",
}

// machineScript reads the entries of /proc from which tools learn the size and the load of the
// machine (free, ps, top, uptime and the runtimes of Go, Java, Node.js and Python).
const machineScript = `set -e
for f in stat meminfo cpuinfo loadavg uptime vmstat version filesystems self/stat self/status self/maps self/mountinfo self/cgroup; do
  [ -n "$(head -c 1 /proc/$f)" ] || echo "$f is empty"
done
[ "$(nproc)" = "$(python3 -c 'import os; print(len(os.sched_getaffinity(0)))')" ] || echo "nproc says $(nproc)"`

// Masks verifies that /dev/null covers the entries that disclose the host. bare is a runner
// without the layer.
func Masks(t *testing.T, r, bare sandbox.Runner) {
	t.Helper()
	script := "for f in " + strings.Join(telling, " ") + "; do if [ -e $f ] && [ ! -c $f ]; then echo $f; fi; done"
	s := Shell(t, Workspace(t), script)
	s.Workspace = sandbox.ReadOnly
	if got := Output(t, r, s); got != "" {
		t.Errorf("seen inside:\n%s", got)
	}
	s = Shell(t, s.WorkspaceRoot, machineScript)
	s.Workspace = sandbox.ReadOnly
	if got := Output(t, r, s); got != "" {
		t.Errorf("ordinary programs miss: %s", got)
	}
	s = Shell(t, s.WorkspaceRoot, script)
	s.Workspace = sandbox.ReadOnly
	var there []string
	for _, name := range telling {
		if _, err := os.Stat(name); err == nil {
			there = append(there, name)
		}
	}
	if got := strings.Fields(Output(t, bare, s)); len(there) == 0 || !slices.Equal(got, there) { // control
		t.Errorf("without the layer %v are seen, and the host has %v", got, there)
	}
}
