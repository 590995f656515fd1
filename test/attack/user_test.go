//go:build linux

package attack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// ordinaryUser is a uid without an account.
const ordinaryUser = 31337

// TestBoundaryAsOrdinaryUser repeats the rows of the sandbox with a palyrad that is not root:
// it starts this binary again.
func TestBoundaryAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	needs.Time(t, time.Minute)
	if os.Geteuid() != 0 {
		return // the rows were already tried as an ordinary user
	}
	// The binary of `go test` is in a directory that only root can traverse.
	binary := filepath.Join(places.base, "attack.test")
	self := must.Get(os.Executable())(t)
	// A separate process makes the copy. If this process had the file open for writing, a
	// concurrent fork could inherit the descriptor, and execve(2) would fail (ETXTBSY).
	if text, err := exec.CommandContext(t.Context(), "cp", self, binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	home := filepath.Join(places.base, "user")
	must.Do(t, errors.Join(os.Chmod(binary, 0o755), os.Mkdir(home, 0o700), os.Chown(home, ordinaryUser, ordinaryUser)))
	outcomes := filepath.Join(home, "outcomes.json")
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestBoundary$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), userBase+"="+places.base, userHome+"="+home, userResults+"="+outcomes, "TMPDIR="+home, "HOME="+home, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	text, failed := cmd.CombinedOutput()
	if err := results.load(outcomes); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if failed != nil {
		t.Errorf("as an ordinary user: %v\n%s", failed, text)
	}
}
