package jail

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// TestStartErrors: an error of clone(2) names the setting that refuses user namespaces. Another
// error is returned as it is.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	for errno, want := range map[unix.Errno]string{
		unix.ENOSPC: "max_user_namespaces", unix.EPERM: "palyrad doctor", unix.ENOENT: "",
	} {
		err := startError(&os.PathError{Op: "fork/exec", Path: "bwrap", Err: errno})
		if remedy := err.NextStep(); !strings.Contains(remedy, want) || want == "" && strings.Contains(err.Error(), "user namespaces") {
			t.Errorf("%v: %v, next: %s", errno, err, remedy)
		}
	}
}

// TestPassingReports: a shortage that palyra-init or bubblewrap reports is a passing failure. The
// controls are other errors.
func TestPassingReports(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		want bool
	}{
		{"mounting the copy", refusal(inside.Report{Failed: inside.StepOverlay, Errno: int(unix.ENOMEM), Error: "cannot allocate memory"}), true},
		{"sending the listeners", refusal(inside.Report{Failed: "sending the report", Errno: int(unix.ETOOMANYREFS), Error: "too many references"}), true},
		{"control: an unknown file system", refusal(inside.Report{Failed: inside.StepOverlay, Errno: int(unix.ENODEV), Error: "no such device"}), false},
		{"bubblewrap, processes", explain(errNoReport, "bubblewrap", []byte("bwrap: Can't fork for pid 1: Resource temporarily unavailable\n")), true},
		{"bubblewrap, memory", explain(errNoReport, "bubblewrap", []byte("bwrap: Can't mount proc on /newroot/proc: Cannot allocate memory")), true},
		{"bubblewrap, namespaces", explain(errNoReport, "bubblewrap", []byte("bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)")), true},
		{"control: bubblewrap, permission", explain(errNoReport, "bubblewrap", []byte("bwrap: Creating new namespace failed: Operation not permitted")), false},
		{"control: a file of that name", explain(errNoReport, "bubblewrap", []byte("bwrap: Can't find source path /no space left on device/x: No such file or directory")), false},
	} {
		if got := sandbox.Passing(row.err); got != row.want {
			t.Errorf("%s: passing %t, want %t: %v", row.name, got, row.want, row.err)
		}
	}
}
