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

// ordinaryUser belongs to no account.
const ordinaryUser = 31337

// TestBoundaryAsOrdinaryUser tries the rows of the sandbox once more with a
// palyrad that is no root: this binary, started again.
func TestBoundaryAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	needs.Time(t, time.Minute)
	if os.Geteuid() != 0 {
		return // the rows were tried as an ordinary user to begin with
	}
	// The binary of `go test` lies in a directory of root's own.
	binary := filepath.Join(places.base, "attack.test")
	self := must.Get(os.Executable())(t)
	// Another process copies it: while this one has it open for writing, it
	// might fork, and the copy of the descriptor would keep it from being run.
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
