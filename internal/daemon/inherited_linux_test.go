package daemon

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeepInherited starts this test again with a descriptor, and has it look
// at what a program of its own finds.
func TestKeepInherited(t *testing.T) {
	const variable, number = "PALYRA_TEST_INHERITED", 77
	switch os.Getenv(variable) {
	case "kept":
		if err := KeepInherited(); err != nil {
			t.Fatal(err)
		}
		fallthrough
	case "given":
		err := exec.Command("readlink", "/proc/self/fd/77").Run()
		if kept := os.Getenv(variable) == "kept"; (err != nil) != kept {
			t.Errorf("kept: %t, a program finds nothing: %v", kept, err)
		}
		return
	}
	fd, err := unix.FcntlInt(0, unix.F_DUPFD, number)
	if err != nil || fd != number {
		t.Fatalf("descriptor %d: %v", fd, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for _, mode := range []string{"kept", "given"} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKeepInherited$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+mode)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestKeepInherited") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}
