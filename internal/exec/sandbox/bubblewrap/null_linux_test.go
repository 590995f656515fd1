package bubblewrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox/jail"
)

// nullFile, if set, is the file with which TestNullThatIsAFile replaces the null device in a
// separate mount namespace. outerMounts identifies the mount namespace of the machine, which
// the test must not modify.
const (
	nullFile    = "TEST_PALYRA_NULL"
	outerMounts = "TEST_PALYRA_OUTER_MOUNTS"
)

// A null device that is a regular file makes every sandbox fail, and the status names the file
// and the layer. Sandboxes work again as soon as the device is restored. The device is covered
// in a mount namespace of the test, so that the machine's is not affected.
func TestNullThatIsAFile(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	mounts := must.Get(os.Readlink("/proc/self/ns/mnt"))(t)
	if file := os.Getenv(nullFile); file != "" {
		if mounts == os.Getenv(outerMounts) {
			t.Fatal("this is the mount namespace of the machine")
		}
		probeWithoutNull(t, file)
		return
	}
	file := filepath.Join(t.TempDir(), "null")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestNullThatIsAFile$")
	cmd.Env = append(os.Environ(), nullFile+"="+file, outerMounts+"="+mounts)
	cmd.Stdin = strings.NewReader("")
	// The flag makes the standard library mark all mounts as private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	// The kernel sends the signal when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if os.IsPermission(err) {
		t.Skip("this user makes no mount namespace")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func probeWithoutNull(t *testing.T, file string) {
	const device = "/dev/null"
	r := newTestRunner(t)
	must.Do(t, unix.Mount(file, device, "", unix.MS_BIND, ""))
	st := r.Probe(t.Context())
	if st.Available || st.Layer != jail.LayerMasks || st.File != device || !strings.Contains(st.Problem, device+" is a regular file") || !strings.Contains(st.Remedy, "mknod") {
		t.Errorf("with a file for a null device: %+v", st)
	}
	must.Do(t, unix.Unmount(device, 0))
	if st := r.Probe(t.Context()); !st.Available {
		t.Errorf("with the device again: %+v", st)
	}
}
