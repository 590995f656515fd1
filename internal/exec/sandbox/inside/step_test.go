package inside_test

import (
	"testing"

	"palyra/internal/exec/sandbox/inside"
)

// TestSteps: the wire contains a code, and errors contain a sentence, also for unknown codes.
func TestSteps(t *testing.T) {
	t.Parallel()
	for step, want := range map[inside.Step]string{
		inside.StepExec:       "starting the program",
		inside.StepExecutable: "checking the program",
		inside.StepWorkspace:  "checking the workspace",
		inside.StepCwd:        "entering the working directory",
		inside.StepOverlay:    "mounting the copy of the workspace",
		inside.StepNetwork:    "opening the connections to the allowed hosts",
		"masking /proc/keys":  "masking /proc/keys",
	} {
		if got := step.String(); got != want {
			t.Errorf("%s: %q, want %q", string(step), got, want)
		}
	}
}
