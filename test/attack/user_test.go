//go:build linux

package attack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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
	outcomes := filepath.Join(places.base, "user", "outcomes.json")
	text, failed := asOrdinaryUser(t, "TestBoundary", outcomes)
	if err := results.load(outcomes); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if failed != nil {
		t.Errorf("as an ordinary user: %v\n%s", failed, text)
	}
}

// asOrdinaryUser runs one test of this binary in a process of an ordinary user, which writes its
// outcomes to a file unless the name is empty.
func asOrdinaryUser(t *testing.T, test, outcomes string) (text []byte, err error) {
	t.Helper()
	home := filepath.Join(places.base, "user")
	binary := filepath.Join(places.base, "attack.test")
	copyBinary.Do(func() {
		// The binary of `go test` is in a directory that only root can traverse.
		self := must.Get(os.Executable())(t)
		// A separate process makes the copy. If this process had the file open for writing, a
		// concurrent fork could inherit the descriptor, and execve(2) would fail (ETXTBSY).
		if text, err := exec.CommandContext(t.Context(), "cp", self, binary).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		must.Do(t, errors.Join(os.Chmod(binary, 0o755), os.Mkdir(home, 0o700), os.Chown(home, ordinaryUser, ordinaryUser)))
	})
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), userBase+"="+places.base, userHome+"="+home, userResults+"="+outcomes, "TMPDIR="+home, "HOME="+home, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	return cmd.CombinedOutput()
}

// copyBinary copies the test binary once, for all tests of an ordinary user.
var copyBinary sync.Once
