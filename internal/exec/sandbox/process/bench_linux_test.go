package process

import (
	"os/exec"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// BenchmarkRun measures an empty program from the spec to the report, and compares it with a
// plain fork and exec.
func BenchmarkRun(b *testing.B) {
	b.Run("fork and exec", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("/usr/bin/true")
			cmd.Env = []string{}
			must.Do(b, cmd.Run())
		}
	})
	for _, c := range []struct {
		name string
		r    *Runner
		mode sandbox.WorkspaceMode
		host string
	}{
		{"landlock", newAloneRunner(b), sandbox.ReadOnly, ""},
		{"user namespaces", newTestRunner(b), sandbox.ReadOnly, ""},
		{"user namespaces, hosts", newTestRunner(b), sandbox.ReadOnly, "example.org:443"},
		{"user namespaces, copy on write", newTestRunner(b), sandbox.CopyOnWrite, ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			spec := jailtest.Spec(b, openWorkspace(b), "true")
			spec.Workspace = c.mode
			if c.host != "" {
				spec.Network = jailtest.Grant(b, c.host)
			}
			for b.Loop() {
				report, err := c.r.Run(b.Context(), spec)
				if err != nil || *report.ExitCode != 0 {
					b.Fatalf("%v, %s", err, report.Stderr.Head)
				}
				if report.Layer != nil {
					must.Do(b, report.Layer.Close())
				}
			}
		})
	}
}
