package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// TestRun: a process that never ends is killed, with an error that states it. Other processes end
// by themselves.
func TestRun(t *testing.T) {
	t.Parallel()
	must.Check(t, Run(exec.CommandContext(t.Context(), "true")))
	if err := Run(exec.CommandContext(t.Context(), "false")); err == nil || strings.Contains(err.Error(), "did not end") {
		t.Errorf("false ended with %v", err)
	}
	if err := runWithin(exec.CommandContext(t.Context(), "sleep", "3600"), 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 20ms") {
		t.Errorf("a process that waits ended with %v", err)
	}
}

// TestEndedBeforeItsOutput: a process counts as ended although its child process holds its output
// open. The child ends when its standard input closes.
func TestEndedBeforeItsOutput(t *testing.T) {
	t.Parallel()
	hold, release, err := os.Pipe()
	must.Do(t, err)
	defer hold.Close()
	defer release.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec 3<&0; cat <&3 & echo started; exit 3")
	cmd.Stdin = hold
	if r := Begin(t, cmd).Wait(t); r.Code != 3 || r.Out != "started\n" {
		t.Errorf("exit code %d, output %q", r.Code, r.Out)
	}
}
