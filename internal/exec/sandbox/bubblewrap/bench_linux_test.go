package bubblewrap

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// The targets (performance.md) are ratios to BenchmarkRawBubblewrap.
func BenchmarkReadOnly(b *testing.B)    { benchmarkRun(b, sandbox.ReadOnly, 0) }
func BenchmarkDirect(b *testing.B)      { benchmarkRun(b, sandbox.Direct, 0) }
func BenchmarkCopyOnWrite(b *testing.B) { benchmarkRun(b, sandbox.CopyOnWrite, 0) }
func BenchmarkPrepared(b *testing.B)    { benchmarkRun(b, sandbox.CopyOnWrite, 1) }

func BenchmarkPreparedHosts(b *testing.B) {
	benchmarkRun(b, sandbox.CopyOnWrite, 1, hosts()...)
}

func hosts() []string { return []string{"example.org:443", "example.org:80"} }

func benchmarkRun(b *testing.B, mode sandbox.WorkspaceMode, prepared int, hosts ...string) {
	r := newTestRunner(b)
	r.pool.most = prepared
	s := jailtest.Spec(b, jailtest.Workspace(b), "true")
	s.Workspace = mode
	if hosts != nil {
		s.Network = jailtest.Grant(b, hosts...)
	}
	run := func() {
		report := must.Get(r.Run(b.Context(), s))(b)
		if report.Layer != nil {
			must.Do(b, report.Layer.Close())
		}
	}
	run()
	for b.Loop() {
		if prepared > 0 {
			b.StopTimer()
			r.pool.settle()
			time.Sleep(10 * time.Millisecond) // the helper must have reached its gate
			b.StartTimer()
		}
		run()
	}
}

// BenchmarkHosts measures the start-up cost of allowed hosts, which is at most 1 ms. Cold runs
// with and without them alternate, so that other load of the machine affects both. Figures are
// medians.
func BenchmarkHosts(b *testing.B) {
	r := newTestRunner(b)
	offline := jailtest.Spec(b, jailtest.Workspace(b), "true")
	offline.Workspace = sandbox.ReadOnly
	with := offline
	with.Network = jailtest.Grant(b, hosts()...)
	var took [2][]time.Duration
	for b.Loop() {
		for i, s := range []sandbox.Spec{offline, with} {
			start := time.Now()
			if _, err := r.Run(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i, unit := range []string{"offline-ms", "hosts-ms"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2])/float64(time.Millisecond), unit)
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
