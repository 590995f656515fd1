package bubblewrap

import (
	"os/exec"
	"testing"
	"time"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/jail/jailtest"
)

// The bars (performance.md) are ratios to BenchmarkRawBubblewrap.
func BenchmarkReadOnly(b *testing.B)    { benchmarkRun(b, sandbox.ReadOnly, 0) }
func BenchmarkDirect(b *testing.B)      { benchmarkRun(b, sandbox.Direct, 0) }
func BenchmarkCopyOnWrite(b *testing.B) { benchmarkRun(b, sandbox.CopyOnWrite, 0) }
func BenchmarkPrepared(b *testing.B)    { benchmarkRun(b, sandbox.CopyOnWrite, 1) }

func benchmarkRun(b *testing.B, mode sandbox.WorkspaceMode, prepared int) {
	r := newTestRunner(b)
	r.pool.most = prepared
	s := jailtest.Spec(b, jailtest.Workspace(b), "true")
	s.Workspace = mode
	run := func() {
		report, err := r.Run(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if report.Layer != nil {
			if err := report.Layer.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	run()
	for b.Loop() {
		if prepared > 0 {
			b.StopTimer()
			r.pool.settle()
			time.Sleep(10 * time.Millisecond) // the helper is to be at its gate
			b.StartTimer()
		}
		run()
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
