package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// A program is not the first process of its namespace, so signals end it like any other
// program.
func TestEndings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""},
		{"exit 3", 3, ""},
		{"kill -TERM $$", 128 + int(unix.SIGTERM), "SIGTERM"},
		{"exec python3 -c 'import os; os.abort()'", 128 + int(unix.SIGABRT), "SIGABRT"},
		{"kill -KILL $$", 128 + int(unix.SIGKILL), "SIGKILL"},
	} {
		for _, rung := range rungs {
			t.Run(c.script+"/"+rung.name, func(t *testing.T) {
				report := jailtest.Run(t, rung.make(t), jailtest.Shell(t, openWorkspace(t), c.script))
				if report.ExitCode == nil || *report.ExitCode != c.code || report.Signal != c.signal {
					t.Errorf("code %v, signal %s: %s", report.ExitCode, report.Signal, report.Stderr.Head)
				}
			})
		}
	}
}

// The first process adopts orphans and reaps them.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	script := `for i in $(seq 20); do (sleep 0 &) ; done
		while ps -o stat= -A | grep -q Z; do n=$((n+1)); [ $n -lt 200 ] || exit 1; sleep 0.01; done`
	jailtest.Output(t, newTestRunner(t), jailtest.Shell(t, jailtest.Workspace(t), script))
}

// Processes that outlive the program end with it, even if they are in separate sessions and
// ignore signals.
func TestNoProcessOutlivesTheRun(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			if rung.name == "landlock" && !grouped() {
				t.Log("without control groups this rung runs nothing; see TestLowerLevelMustBeAllowed")
				return
			}
			mark := "3141" + strconv.Itoa(os.Getpid())
			script := "trap '' TERM HUP; (setsid sleep " + mark + " > /dev/null 2>&1 &); (setsid sh -c '(sleep " + mark + " &)' > /dev/null 2>&1 &); sleep 0.05; echo started"
			if got := jailtest.Output(t, rung.make(t), jailtest.Shell(t, openWorkspace(t), script)); got != "started\n" {
				t.Errorf("got %q", got)
			}
			if pids := running(t, mark); len(pids) > 0 {
				t.Errorf("still running: %v", pids)
			}
		})
	}
}

// running returns the processes with a word on their command line.
func running(t *testing.T, word string) []string {
	t.Helper()
	list := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	var pids []string
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(text), "sleep\x00"+word) {
			pids = append(pids, name)
		}
	}
	return pids
}

func TestStoppedRuns(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			r, root := rung.make(t), openWorkspace(t)
			spec := jailtest.Shell(t, root, "trap '' TERM; sleep 100 & wait")
			spec.Limits.Wall = 100 * time.Millisecond
			if report := jailtest.Run(t, r, spec); !report.TimedOut || report.ExitCode != nil {
				t.Errorf("timed out %v, code %v", report.TimedOut, report.ExitCode)
			}
			spec.Limits.Wall = time.Minute
			ctx, cancel := context.WithCancel(t.Context())
			spec.Argv = []string{"bash", "-c", "echo here; sleep 100"}
			spec.Output = func(string, []byte) { cancel() }
			if _, err := r.Run(ctx, spec); reason.Of(err) != reason.Cancelled {
				t.Errorf("got %v", err)
			}
			spec = jailtest.Shell(t, root, "head -c 300000000 /dev/zero")
			if report := jailtest.Run(t, r, spec); report.Quota != sandbox.QuotaOutput {
				t.Errorf("quota %q", report.Quota)
			}
		})
	}
}

// The writes of a run to its copy are measured during the run, and again after its end.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	r, root := newTestRunner(t), jailtest.Workspace(t)
	for name, script := range map[string]string{
		"while it runs": "for i in $(seq 16); do head -c 4M /dev/zero > f$i; done; sleep 30",
		"short":         "head -c 64M /dev/zero > f",
	} {
		for limit, want := range map[int64]sandbox.Quota{8 << 20: sandbox.QuotaDisk, 128 << 20: ""} {
			spec := jailtest.Shell(t, root, script)
			if want == "" { // control
				spec.Argv[2] = strings.TrimSuffix(script, "; sleep 30")
			}
			spec.Workspace, spec.Limits.Disk = sandbox.CopyOnWrite, limit
			report := jailtest.Run(t, r, spec)
			if report.Quota != want || report.TimedOut {
				t.Errorf("%s, limit %d: quota %q, timed out %t", name, limit, report.Quota, report.TimedOut)
			}
		}
	}
}

// A program ends with its daemon if the daemon is killed.
func TestDaemonIsKilled(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		mark := "2718" + strconv.Itoa(os.Getpid())
		e := errand{Spec: jailtest.Shell(t, jailtest.Workspace(t), "echo up; (setsid sleep "+mark+"9 &); sleep "+mark), LayerDir: jailtest.Dir(t), Alone: alone}
		if alone {
			// Without groups and namespaces, only the program itself ends.
			e.Spec.Argv[2] = "echo up; exec sleep " + mark
			e.Without = []string{"control_group"}
		}
		cmd := e.command(t)
		said := must.Get(cmd.StderrPipe())(t)
		must.Do(t, cmd.Start())
		if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "output: up\n" {
			t.Errorf("%q, %v", line, err)
		}
		must.Do(t, cmd.Process.Kill())
		_ = cmd.Wait()
		must.Eventually(t, fmt.Sprintf("alone %v: nothing runs", alone), func() (bool, string) {
			left := running(t, mark)
			return len(left) == 0, fmt.Sprint(left)
		})
		must.Check(t, sweepScratch())
		if left := scratches(t, strconv.Itoa(cmd.Process.Pid)+"-"); len(left) > 0 {
			t.Errorf("after the sweep there is %v", left)
		}
	}
}

// Capabilities, Landlock and seccomp belong to one thread of the helper. Each of many
// concurrent runs must prove them, whatever the Go scheduler does.
func TestManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			r, spec := rung.make(t), jailtest.Shell(t, openWorkspace(t), "exit 7")
			spec.Workspace = sandbox.ReadOnly
			want := jailtest.Run(t, r, spec).Applied
			var running sync.WaitGroup
			for range 4 {
				running.Go(func() {
					for range 10 {
						runtime.GC()
						report, err := r.Run(t.Context(), spec)
						if err != nil || report.ExitCode == nil || *report.ExitCode != 7 || !slices.Equal(report.Applied, want) {
							t.Errorf("%v, applied %v", err, report.Applied)
						}
					}
				})
			}
			running.Wait()
		})
	}
}

// Not parallel: a run of another test in the same groups would change the measurements.
func TestLimitsInResults(t *testing.T) {
	for name, without := range map[string][]string{"control groups": nil, "rlimits": {jail.LayerGroup}} {
		t.Run(name, func(t *testing.T) {
			if without == nil && !grouped() {
				t.Skip("this machine has no control groups; the other case tests rlimits")
			}
			jailtest.Limits(t, newTestRunner(t, without...), without == nil, false, jailtest.Workspace)
		})
	}
}
