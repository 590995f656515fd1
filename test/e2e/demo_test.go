//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// TestDemo runs what `make demo` runs, with both answers to its question.
func TestDemo(t *testing.T) {
	for answer, want := range map[string]string{
		"allow": "Hello, Ada!",
		"deny":  "[APPROVAL_DENIED]",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), repository+"/scripts/demo.sh")
			cmd.Env = append(os.Environ(), "DEMO_APPROVE="+answer, "DEMO_BIN="+programs, "TMPDIR="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the demo ended with %v:\n%s", err, out)
			}
			for _, line := range []string{want, "POLICY_DENIED", "TIMED_OUT", "verified", "VERIFICATION_FAILED", "Done:"} {
				if !bytes.Contains(out, []byte(line)) {
					t.Errorf("the demo does not print %s:\n%s", line, out)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the demo left %v behind, %v", left, err)
			}
		})
	}
}
