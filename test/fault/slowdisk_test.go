//go:build linux

package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// canTrace skips the test if strace is not permitted.
func canTrace(t *testing.T) {
	t.Helper()
	if problem := traceProblem(); problem != "" {
		if os.Geteuid() == 0 {
			t.Fatalf("root cannot trace a child: %s", problem)
		}
		t.Skip("strace cannot trace: " + problem)
	}
}

var traceProblem = sync.OnceValue(func() string {
	out, err := exec.Command("strace", "-f", "--seccomp-bpf", "-e", "trace=fsync", "-o", "/dev/null", "true").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
})

// traced returns a command prefix that runs a command under strace with an injection, for
// system calls that touch one of the paths. With -D the command is still the child of the test,
// and strace ends with it.
func traced(calls, injection string, paths ...string) []string {
	line := []string{"strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + injection}
	for _, path := range paths {
		line = append(line, "-P", path)
	}
	return line
}

// TestSlowDisk delays every sync of the journal. Calls are slow but correct, an approval still
// arrives, the log has one warning, and the stop keeps its time limit.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	canTrace(t)
	d := start(t) // the disk is fast while the store is created
	d.Stop()
	const delay = 1200 * time.Millisecond
	d.Wrap = traced("fsync", fmt.Sprintf("delay_exit=%dms", delay.Milliseconds()), d.store()+"-wal")
	slowed := time.Now()
	d.Start()
	c := d.dial()
	began := time.Now()
	r := c.write(t.Context(), "slow", true)
	succeeded(t, r)
	if took := time.Since(began); took < 3*delay {
		t.Errorf("an asked call took %v: asked, decided and attested are not all synced, or the delay is not there", took)
	}
	if code, text := d.readyz(); code != 200 {
		t.Errorf("readyz: %d %s", code, text)
	}
	n := strings.Count(d.Log().String(), "the disk is slow")
	if most := 1 + int(time.Since(slowed)/time.Minute); n < 1 || n > most {
		t.Errorf("the log warns %d times of a slow disk, want 1 to %d, one a minute:\n%s", n, most, d.Log())
	}
	c.transport.CloseIdleConnections()
	began = time.Now()
	d.Stop()
	// Running calls get 10 s and the journal's end 10 s; the rest allows for a busy machine. A
	// stop without these limits would wait forever for an idle client.
	if took := time.Since(began); took > must.Patience {
		t.Errorf("the stop took %v", took)
	}
	d.Wrap = nil
	d.Start()
	d.Stop()
	d.holds([]reply{r})
}

// TestFastDiskIsNotSlow is the control of the warning: without a commit that took a second, the
// log has no warning. On a busy machine, a commit may take that long without an injection.
func TestFastDiskIsNotSlow(t *testing.T) {
	t.Parallel()
	d := start(t)
	succeeded(t, d.dial().write(t.Context(), "fast", true))
	warned := strings.Contains(d.Log().String(), "the disk is slow")
	_, metrics := d.get("/metrics")
	took := regexp.MustCompile(`palyra_journal_commit_seconds_(?:bucket{le="1"}|count) (\d+)\n`).FindAllStringSubmatch(metrics, -1)
	if len(took) != 2 || took[1][1] == "0" {
		t.Fatalf("the metrics count no commits:\n%s", metrics)
	}
	if warned && took[0][1] == took[1][1] {
		t.Errorf("no commit took a second, and the log warns of a slow disk:\n%s", d.Log())
	}
	d.Stop()
	if _, err := os.Stat(filepath.Join(d.Workspace, "fast")); err != nil {
		t.Error(err)
	}
}
