package jail

import (
	"os"
	"strings"

	"testing"

	"golang.org/x/sys/unix"
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
