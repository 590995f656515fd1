package jailtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// forkScript starts children until one is refused, and then exits with the given code.
const forkScript = `import os, sys, time
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)
except OSError as e:
    print("refused:", e.strerror, file=sys.stderr)
    sys.exit(%s)
`

// Limits verifies that the result of a program names the limit that it reached, with its use.
// grouped reports whether r uses control groups. tmp reports whether /tmp is a file system of its
// own. workspace creates the workspaces of the runs.
func Limits(t *testing.T, r sandbox.Runner, grouped, tmp bool, workspace func(testing.TB) string) {
	t.Helper()
	byGroup := func(with, without string) string {
		if grouped {
			return with
		}
		return without
	}
	python := func(code string) []string { return []string{"python3", "-S", "-c", code} }
	bash := func(script string) []string { return []string{"bash", "-c", script} }
	for _, c := range []struct {
		name   string
		argv   []string
		limits sandbox.Limits
		// limit is the expected limit, "" for none, and effect its effect.
		limit, effect string
		// measured reports whether the use is measured.
		measured bool
	}{
		{"wall", bash("sleep 3600"), sandbox.Limits{Wall: 500 * time.Millisecond}, sandbox.QuotaWall, tool.LimitEnded, true},
		{"cpu", bash("while :; do :; done"), sandbox.Limits{CPU: time.Second}, sandbox.QuotaCPU, tool.LimitEnded, true},
		{"memory", python("import signal\nheld = bytearray(b'x') * (512 << 20)\nsignal.pause()"), sandbox.Limits{Memory: 128 << 20}, sandbox.QuotaMemory, tool.LimitEnded, true},
		{"processes", python(fmt.Sprintf(forkScript, "1")), sandbox.Limits{Processes: 32}, sandbox.QuotaProcesses, byGroup(tool.LimitEnded, tool.LimitReported), grouped},
		{"processes, handled", python(fmt.Sprintf(forkScript, "0")), sandbox.Limits{Processes: 32}, byGroup(sandbox.QuotaProcesses, ""), byGroup(tool.LimitRefused, ""), grouped},
		{"output", bash("exec yes"), sandbox.Limits{Output: 4096}, sandbox.QuotaOutput, tool.LimitEnded, true},
		{"file size", bash("exec head -c 2M /dev/zero > big"), sandbox.Limits{FileSize: 1 << 20}, sandbox.QuotaFileSize, tool.LimitEnded, true},
		{"file size, reported", python("open('big', 'wb').write(bytes(2 << 20))"), sandbox.Limits{FileSize: 1 << 20}, sandbox.QuotaFileSize, tool.LimitReported, false},
		{"disk", bash("head -c 64M /dev/zero > f"), sandbox.Limits{Disk: 8 << 20}, sandbox.QuotaDisk, tool.LimitEnded, true},
		{"files", bash("for i in $(seq 200); do : > f$i; done"), sandbox.Limits{Files: 100}, sandbox.QuotaFiles, tool.LimitEnded, true},
		{"open files", python("held = [open('/dev/null') for _ in range(100)]"), sandbox.Limits{OpenFiles: 64}, sandbox.QuotaOpenFiles, tool.LimitReported, false},
		{"temporary files", bash("head -c 2M /dev/zero > /tmp/f"), sandbox.Limits{Tmp: 1 << 20}, sandbox.QuotaTmp, tool.LimitReported, false},
		{"none", bash("echo fine"), sandbox.Limits{}, "", "", false},
		{"none, with a message", bash("echo too many open files >&2"), sandbox.Limits{}, "", "", false},
		{"none, with an error", bash("exit 1"), sandbox.Limits{}, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.limit == sandbox.QuotaTmp && !tmp {
				return // without a file system of its own, /tmp is in the limit of the disk
			}
			s := Spec(t, workspace(t), c.argv...)
			if c.limits.Wall == 0 {
				c.limits.Wall = s.Limits.Wall
			}
			s.Workspace, s.Limits = sandbox.CopyOnWrite, c.limits
			report := Run(t, r, s)
			reached := report.Reached()
			if c.limit == "" {
				if len(reached) > 0 || len(report.Limits) == 0 {
					t.Fatalf("reached %+v of %d limits; %s; %.300s", reached, len(report.Limits), Ending(report), report.Stderr.Head)
				}
				return
			}
			if len(reached) != 1 || reached[0].Limit != c.limit || reached[0].Effect != c.effect {
				t.Fatalf("reached %+v, want %s %s; %s; %.300s", reached, c.limit, c.effect, Ending(report), report.Stderr.Head)
			}
			use := reached[0]
			if c.measured && (use.Used < use.Allowed*7/8 || use.Shared()) || (use.Effect == tool.LimitRefused) != (use.Refused > 0) {
				t.Errorf("used %d of %d, %d refused", use.Used, use.Allowed, use.Refused)
			}
			if stopped := report.Stopped(); (stopped != nil) != (c.effect == tool.LimitEnded) {
				t.Errorf("stopped: %v", stopped)
			}
			if i := slices.IndexFunc(report.Limits, func(u tool.LimitUse) bool { return u.Limit == sandbox.QuotaWall }); report.Limits[i].Used == 0 {
				t.Error("the running time was not measured")
			}
		})
	}
}
