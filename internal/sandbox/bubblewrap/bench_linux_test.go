package bubblewrap

import (
	"os/exec"
	"testing"
)

// The bar (performance.md) is the ratio of these two.
func BenchmarkRunTrue(b *testing.B) {
	r := newTestRunner(b, nil)
	s := specOf(b, newWorkspace(b), "true")
	mustRun(b, r, s)
	for b.Loop() {
		mustRun(b, r, s)
	}
}

func BenchmarkRawBubblewrap(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command(defaultBwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--ro-bind", "/usr", "/usr",
			"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
	}
}
