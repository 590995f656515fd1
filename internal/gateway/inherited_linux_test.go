package gateway

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// TestKeepInherited runs itself again with an inherited descriptor, and checks whether child
// processes of the program get the descriptor.
//
// Not parallel: programs of other tests would inherit its descriptor.
func TestKeepInherited(t *testing.T) {
	const variable, descriptor = "TEST_PALYRA_INHERITED", "TEST_PALYRA_DESCRIPTOR"
	switch os.Getenv(variable) {
	case "kept":
		must.Do(t, KeepInherited())
		fallthrough
	case "given":
		err := exec.Command("readlink", "/proc/self/fd/"+os.Getenv(descriptor)).Run()
		if kept := os.Getenv(variable) == "kept"; (err != nil) != kept {
			t.Errorf("kept: %t, a program finds nothing: %v", kept, err)
		}
		return
	}
	fd, err := unix.FcntlInt(0, unix.F_DUPFD, 77) // above the descriptors that the Go runtime of the next process opens
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	for _, mode := range []string{"kept", "given"} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKeepInherited$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+mode, descriptor+"="+strconv.Itoa(fd))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestKeepInherited") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}
