//go:build linux

package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestFreshMachineNeedsRoot: an ordinary user gets an error of one line.
func TestFreshMachineNeedsRoot(t *testing.T) {
	t.Parallel()
	script := must.Get(os.Open(repository + "/scripts/fresh-machine.sh"))(t)
	defer script.Close()
	cmd := exec.CommandContext(t.Context(), "bash", "-s")
	if os.Geteuid() == 0 {
		cmd = exec.CommandContext(t.Context(), "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "bash", "-s")
	}
	// The working directory is one that this user may enter.
	cmd.Dir, cmd.Stdin = "/", script
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "it needs Linux and root") {
		t.Errorf("%v: %s", err, out)
	}
}
