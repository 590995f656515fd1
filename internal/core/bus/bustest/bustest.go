// Package bustest runs a message bus for a single test.
package bustest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// Program is the message bus, in Debian's package dbus-daemon.
const Program = "dbus-daemon"

// New runs a bus until the test ends and returns its address. It starts no
// services.
func New(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath(Program); err != nil {
		t.Skip(Program + " is not installed")
	}
	address, stop, err := Start(t.TempDir())
	must.Do(t, err)
	t.Cleanup(stop)
	return address
}

// Start runs a bus whose socket and configuration are in a directory.
func Start(dir string) (address string, stop func(), err error) {
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, `<busconfig><type>session</type><listen>unix:path=%s/bus</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`, dir), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(Program, "--config-file="+config, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s did not start: %w", Program, err)
	}
	return strings.TrimSpace(line), stop, nil
}
