//go:build unix

package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
)

// killAt is the environment variable with the step at which the process kills itself.
const killAt = "PALYRA_TEST_KILL_AT"

// killed runs a test of this package in its own process, which kills itself with SIGKILL at a
// step. It reports whether the step was reached.
func killed(t *testing.T, test, step string, env ...string) bool {
	t.Helper()
	cmd := exec.Command(must.Get(os.Executable())(t), "-test.run", "^"+test+"$")
	cmd.Env = append(append(os.Environ(), killAt+"="+step), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	return true
}

// killSelf kills this process at the step of killAt.
func killSelf(step string) {
	if step == os.Getenv(killAt) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// aWorld returns the world of the process that kills itself.
func aWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv(killAt) == "" {
		t.Skip("it is run by TestKilledAtEveryStep")
	}
	dir := os.Getenv("PALYRA_TEST_DIR")
	return &world{
		t: t, dir: dir, state: filepath.Join(dir, "state"),
		identity: must.Get(age.ParseX25519Identity(os.Getenv("PALYRA_TEST_IDENTITY")))(t),
	}
}

func TestChildBackup(t *testing.T) {
	t.Parallel()
	w := aWorld(t)
	must.Get(write(t.Context(), filepath.Join(w.dir, "backup.age"), []age.Recipient{w.identity.Recipient()}, w.source(), killSelf))(t)
}

func TestChildRestore(t *testing.T) {
	t.Parallel()
	w := aWorld(t)
	must.Get(restore(t.Context(), filepath.Join(w.dir, "backup.age"), w.target(), killSelf))(t)
}

// After a kill at any step, a backup is complete or absent, and so is a restored directory.
// Another run succeeds and removes the remaining files.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	env := []string{"PALYRA_TEST_DIR=" + w.dir, "PALYRA_TEST_IDENTITY=" + w.identity.String()}
	to, dir := filepath.Join(w.dir, "backup.age"), w.target().Dir
	for _, step := range []string{"prepared", "collected", "signed", "made", "written", "synced", "named"} {
		if !killed(t, "TestChildBackup", step, env...) {
			t.Fatalf("backup: the step %q was not reached", step)
		}
		if _, err := os.Lstat(to); (err == nil) != (step == "named") {
			t.Errorf("killed at %q, the backup is there: %v", step, err == nil)
		}
		if step == "named" {
			must.Get(Restore(t.Context(), to, w.target()))(t)
			must.Do(t, os.RemoveAll(dir))
		}
	}
	w.backUp()
	for _, step := range []string{"prepared", "extracted", "judged", "marked", "verified", "named"} {
		if !killed(t, "TestChildRestore", step, env...) {
			t.Fatalf("restore: the step %q was not reached", step)
		}
		if _, err := os.Lstat(dir); (err == nil) != (step == "named") {
			t.Errorf("killed at %q, the directory is there: %v", step, err == nil)
		}
		if step != "named" {
			continue
		}
		if _, waits, err := ReadMark(dir); !waits || err != nil {
			t.Errorf("killed at %q, it has no mark: %v", step, err)
		}
		must.Do(t, os.RemoveAll(dir))
	}
	must.Get(Restore(t.Context(), to, w.target()))(t)
	nothingBeside(t, w, "backup.age", "palyra.toml", "policy", "restored", "state")
	for name := range tree(t, w.state) {
		if strings.HasPrefix(name, filepath.Base(statedir.Scratch(""))) {
			t.Errorf("%s was left", name)
		}
	}
}
