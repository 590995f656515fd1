//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"palyra/internal/core/must"
)

// TestDemo runs the program of `make demo`, once approving its request and once without an
// answer, which denies it.
func TestDemo(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"allow": "Hello, Ada!",
		"":      "[APPROVAL_DENIED]",
	} {
		t.Run("answer "+answer, func(t *testing.T) {
			t.Parallel()
			out := demo(t, answer)
			sideBySide(t, out)
			for _, line := range []string{want, "state         completed", "fuel          ", "POLICY_DENIED", "TIMED_OUT", "verified", "VERIFICATION_FAILED", "Done:"} {
				if !bytes.Contains(out, []byte(line)) {
					t.Errorf("the demo does not print %s:\n%s", line, out)
				}
			}
		})
	}
}

// demo runs the demo and returns its output.
func demo(t *testing.T, answer string) []byte {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	// The layout is the same as after `make build`: the worker is in palyrad's directory.
	for _, program := range []string{filepath.Join(programs, "palyra"), filepath.Join(programs, "palyrad"), must.Get(worker())(t)} {
		must.Do(t, os.Link(program, filepath.Join(bin, filepath.Base(program))))
	}
	cmd := exec.CommandContext(t.Context(), repository+"/scripts/demo.sh")
	cmd.Env = append(os.Environ(), "DEMO_APPROVE="+answer, "DEMO_BIN="+bin, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the demo ended with %v:\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v behind, %v", left, err)
	}
	return out
}

// sideBySide checks that the model's two calls overlap: each started before the other ended.
func sideBySide(t *testing.T, out []byte) {
	t.Helper()
	_, story, _ := bytes.Cut(out, []byte("$ palyra runs show "))
	at := func(call, what string) string {
		_, rest, _ := bytes.Cut(story, []byte("\n["+call+"] process.run\n"))
		m := regexp.MustCompile(`(?m)^  ([0-9:.]{12})  ` + what + ` `).FindSubmatch(rest)
		if m == nil {
			t.Fatalf("call %s was not %s:\n%s", call, what, story)
		}
		return string(m[1])
	}
	if at("1", "allowed") > at("2", "succeeded") || at("2", "allowed") > at("1", "succeeded") {
		t.Errorf("the two calls ran one after the other:\n%s", story)
	}
}
