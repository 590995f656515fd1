package process

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRun: a process that waits for ever ends, and with an error that says so;
// others keep their own end.
func TestRun(t *testing.T) {
	t.Parallel()
	if err := Run(exec.CommandContext(t.Context(), "true")); err != nil {
		t.Error(err)
	}
	if err := Run(exec.CommandContext(t.Context(), "false")); err == nil || strings.Contains(err.Error(), "did not end") {
		t.Errorf("false ended with %v", err)
	}
	if err := runWithin(exec.CommandContext(t.Context(), "sleep", "3600"), 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 20ms") {
		t.Errorf("a process that waits ended with %v", err)
	}
}
